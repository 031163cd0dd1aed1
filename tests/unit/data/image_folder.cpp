#include "data/pictures/image_folder.h"

#include "data/pictures/picture_dataset.h"
#include "kernels/base/activity.h"
#include "kernels/base/error.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/data/picture_folder.h"
#include "tests/unit/data/picture_sets.h"

using namespace lockstep;
using namespace lockstep::data;
using namespace lockstep::data::testing;
using namespace lockstep::tests;

namespace {

namespace fs = std::filesystem;

std::string folder_complaint(const fs::path& folder, Split split = Split::train) {
  const std::string message = message_of<DataError>([&] { open_image_folder(folder, split); });
  CHECK(message.starts_with(folder.string()));
  return message.substr(std::min(message.size(), folder.string().size()));
}

}  // namespace

TEST_CASE("classes are folders in the order of their names, with all pictures below them") {
  const TemporaryFolder folder;
  put(folder / "dog" / "b.JPG", 21);
  put(folder / "dog" / "a.jpeg", 22);
  put(folder / "cat" / "z.jpg", 23);
  put(folder / "cat" / "more" / "a.jpg", 24);
  put(folder / "cat" / ".hidden.jpg", 25);
  write_file(folder / "cat" / "notes.txt", "no picture");
  write_file(folder / "readme", "no class");
  fs::create_directory_symlink(folder / "cat", folder / "lynx");
  const auto set = open_image_folder(folder.path(), Split::train);
  CHECK(widths_and_labels(*set) == All{{23, 0}, {24, 0}, {22, 1}, {21, 1}, {23, 2}, {24, 2}});
  CHECK(set->num_classes() == 3);
  CHECK(image_folder_classes(folder.path()) == std::vector<std::string>{"cat", "dog", "lynx"});
  Activity activity;
  CHECK(open_image_folder(folder.path(), Split::test, {}, &activity)->size() == 6);
  CHECK(activity.advances() == 3);
}

TEST_CASE("a folder with train and val is split, with the classes of train") {
  const TemporaryFolder folder;
  put(folder / "train" / "a" / "1.jpg", 21);
  put(folder / "train" / "b" / "1.jpg", 22);
  CHECK(folder_complaint(folder.path(), Split::test).starts_with(": beside train there is no val"));
  put(folder / "val" / "b" / "1.jpg", 23);
  CHECK(widths_and_labels(*open_image_folder(folder.path(), Split::train)) == All{{21, 0}, {22, 1}});
  CHECK(widths_and_labels(*open_image_folder(folder.path(), Split::test)) == All{{23, 1}});
  put(folder / "val" / "c" / "1.jpg", 24);
  CHECK(folder_complaint(folder.path(), Split::test) == "/val/c: training has no class of this name");
}

TEST_CASE("what is evaluated is val before valid before test, and may be there alone") {
  const TemporaryFolder folder;
  put(folder / "test" / "b" / "1.jpg", 21);
  put(folder / "test" / "a" / "1.jpg", 22);
  CHECK(widths_and_labels(*open_image_folder(folder.path(), Split::test)) == All{{22, 0}, {21, 1}});
  CHECK(folder_complaint(folder.path()) == ": there is no train beside test");
  CHECK(find_dataset(datasets(), "image-folder").note({.data_dir = folder.path()}).empty());
  put(folder / "valid" / "a" / "1.jpg", 23);
  put(folder / "train" / "a" / "1.jpg", 24);
  CHECK(widths_and_labels(*open_image_folder(folder.path(), Split::test)) == All{{23, 0}});
  put(folder / "val" / "a" / "1.jpg", 25);
  CHECK(widths_and_labels(*open_image_folder(folder.path(), Split::test)) == All{{25, 0}});
}

TEST_CASE("classes may be called train or test") {
  const TemporaryFolder folder;
  for (const char* name : {"bus", "test", "train"}) put(folder / name / "1.jpg", 21);
  fs::rename(folder / "test", folder / "plane");
  CHECK(image_folder_classes(folder.path()) == std::vector<std::string>{"bus", "plane", "train"});
  fs::rename(folder / "train", folder / "test");
  CHECK(image_folder_classes(folder.path()) == std::vector<std::string>{"bus", "plane", "test"});
  // Pictures without classes are none.
  for (const char* name : {"d/train", "d/test1"}) put(folder / name / "1.jpg", 21);
  CHECK(folder_complaint(folder / "d") == "/train: no folders here: pictures lie in a folder for each class");
}

TEST_CASE("classes that weights know by name keep their numbers, whichever of them a folder has") {
  const TemporaryFolder folder;
  put(folder / "dog" / "1.jpg", 21);
  put(folder / "ant" / "1.jpg", 22);
  const std::vector<std::string> known{"cat", "dog", "ant"};
  const auto set = open_image_folder(folder.path(), Split::test, known);
  CHECK(widths_and_labels(*set) == All{{22, 2}, {21, 1}});
  CHECK(set->num_classes() == 3);
  DatasetOptions options{
      .name = "image-folder", .data_dir = folder.path(), .eval_transform = "resize=8,crop=8"};
  options.class_names = known;
  const DatasetPtr samples = open_dataset(options, Split::test);
  std::vector<std::byte> input(samples->spec().input_bytes());
  std::int64_t label = 0;
  samples->get(0, 0, input, std::as_writable_bytes(std::span(&label, 1)));
  CHECK(label == 2);
  put(folder / "eel" / "1.jpg", 23);
  CHECK(message_of<DataError>([&] { open_dataset(options, Split::test); }) ==
        (folder / "eel").string() + ": training has no class of this name");
}

TEST_CASE("that the samples of training are evaluated is told") {
  const TemporaryFolder folder;
  for (const char* name : {"image-folder", "shards"}) {
    const auto note = find_dataset(datasets(), name).note;
    const DatasetOptions options{.name = name, .data_dir = folder / name};
    CHECK(note(options) == "evaluated are the samples that are trained on: " + (folder / name).string() +
                               " has no folders train and val");
    fs::create_directories(folder / name / "train");
    CHECK(note(options).empty());
  }
}

TEST_CASE("folders that are no data set are named") {
  const TemporaryFolder folder;
  CHECK(folder_complaint(folder.path()) == ": no folders here: pictures lie in a folder for each class");
  fs::create_directory(folder / "empty");
  CHECK(folder_complaint(folder.path()) == "/empty: no pictures (.jpg, .jpeg, .png) for this class");
  put(folder / "empty" / "1.png", 21);
  write_file(folder / "empty" / "2.WebP", "");
  CHECK(folder_complaint(folder.path()) ==
        "/empty/2.WebP: pictures are read from JPEG and PNG alone: convert it, or take it away");
  fs::remove(folder / "empty" / "2.WebP");
  put(folder / "caf\xe9" / "1.png", 21);
  CHECK(folder_complaint(folder.path()) ==
        "/caf\xe9: the name of this class is no UTF-8, as weights keep names: rename it");
  fs::rename(folder / "caf\xe9", folder / "caf\xc3\xa9");
  CHECK(image_folder_classes(folder.path()) == std::vector<std::string>{"caf\xc3\xa9", "empty"});
  CHECK(folder_complaint(folder / "nowhere") == ": cannot be read: No such file or directory");
  fs::create_directory_symlink(folder.path(), folder / "empty" / "loop");
  CHECK(folder_complaint(folder.path()).find("folders nest too deep") != std::string::npos);
}

TEST_CASE("a path in the place of a name is a folder of pictures or of shards") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "pictures");
  fs::create_directory(folder / "shards");
  write_file(folder / "shards" / "0.tar", "");
  CHECK(dataset_at((folder / "pictures").string()) == "image-folder");
  CHECK(dataset_at((folder / "shards").string()) == "shards");
  CHECK(dataset_at((folder / "shards" / "0.tar").string()) == "shards");
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  CHECK(dataset_at("pictures") == "image-folder");
  CHECK_FALSE(dataset_at("pictures", false));
  CHECK(dataset_at("pictures/", false) == "image-folder");
  CHECK(dataset_at("0.tar", false) == "shards");
  fs::create_directory("mnist");
  CHECK_FALSE(dataset_at("mnist"));
  fs::current_path(before);
}

TEST_CASE("pictures of all sizes become samples of one, read from their files") {
  const TemporaryFolder folder;
  put(folder / "a" / "1.jpg", 41);
  put(folder / "b" / "1.jpg", 64);
  const DatasetOptions options{.name = "image-folder",
                               .data_dir = folder.path(),
                               .transform = "random-resized-crop=16,flip,normalise=imagenet",
                               .eval_transform = "resize=24,crop=16,normalise=imagenet"};
  const DatasetPtr set = open_dataset(options, Split::train);
  CHECK(set->spec().input_shape == Shape{3, 16, 16});
  CHECK(set->spec().num_classes == 2);
  CHECK(dataset_spec(options).input_shape == Shape{3, 16, 16});
  std::vector<float> input(3 * 16 * 16);
  std::int64_t label = -1;
  set->get(1, 0, std::as_writable_bytes(std::span(input)), std::as_writable_bytes(std::span(&label, 1)));
  CHECK(label == 1);
  write_file(folder / "b" / "1.jpg", picture_of(64).substr(0, 500));
  CHECK(message_of<DataError>([&] {
          set->get(1, 0, std::as_writable_bytes(std::span(input)),
                   std::as_writable_bytes(std::span(&label, 1)));
        }).starts_with((folder / "b" / "1.jpg").string() + ": offset "));
}

TEST_CASE("a digest of files is of 64 pictures, however large the samples are that are made of them") {
  const TemporaryFolder folder;
  write_picture_folder(folder / "pictures", 64);
  DatasetOptions options{.name = "image-folder",
                         .data_dir = folder / "pictures",
                         .transform = "resize=256,crop=224",
                         .eval_transform = "resize=256,crop=224"};
  const auto opened = [&] { return open_dataset(options, Split::train); };
  Activity activity;
  const std::string before = file_digest_of(*opened(), &activity);
  CHECK(before.size() == 16);
  CHECK(activity.advances() == 64);
  const std::filesystem::path one = folder / "pictures" / "even" / "130.jpg";
  const std::string picture = contents(one);
  std::string other = picture;
  other[other.size() / 2] ^= 1;
  const std::string fingerprint = fingerprint_of(*opened());
  write_file(one, other);
  CHECK(fingerprint_of(*opened()) == fingerprint);  // it has time for 6 samples
  CHECK(file_digest_of(*opened()) != before);
  write_file(one, picture);
  CHECK(file_digest_of(*opened()) == before);

  const DatasetPtr all = opened();
  std::filesystem::remove(one);
  CHECK_THROWS_AS(file_digest_of(*all), DataError);
  write_file(one, picture);
  options.skip_corrupt = true;
  const DatasetPtr good_ones = opened();
  std::filesystem::remove(one);
  CHECK(file_digest_of(*good_ones) != before);
  CHECK(file_digest_of(*open_dataset({.name = "synthetic", .samples = 9}, Split::train)).empty());
}
