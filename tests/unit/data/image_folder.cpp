#include "data/pictures/image_folder.h"

#include "data/pictures/picture_dataset.h"
#include "data/pictures/shards.h"
#include "kernels/base/error.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/data/encoded.h"
#include "tests/unit/data/formula_picture.h"
#include "tests/unit/data/tar_bytes.h"

using namespace lockstep;
using namespace lockstep::data;
using namespace lockstep::data::testing;
using namespace lockstep::tests;

namespace {

namespace fs = std::filesystem;

std::string picture_of(int width) {
  return jpeg_of(formula_picture({width, 30}, 3).view());
}

/// A picture whose width tells which it is.
void put(const fs::path& path, int width) {
  fs::create_directories(path.parent_path());
  write_file(path, picture_of(width));
}

std::vector<std::pair<int, std::int64_t>> widths_and_labels(const PictureSet& set) {
  std::vector<std::pair<int, std::int64_t>> all;
  for (std::int64_t i = 0; i < set.size(); ++i) all.emplace_back(set.open(i)->size().width, set.label(i));
  return all;
}

using All = std::vector<std::pair<int, std::int64_t>>;

std::string folder_complaint(const fs::path& folder, Split split = Split::train) {
  const std::string message = message_of<DataError>([&] { open_image_folder(folder, split); });
  CHECK(message.starts_with(folder.string()));
  return message.substr(std::min(message.size(), folder.string().size()));
}

std::string sample(const std::string& key, int width, const std::string& label) {
  return tar_member(key + ".jpg", picture_of(width)) + tar_member(key + ".cls", label);
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
  CHECK(open_image_folder(folder.path(), Split::test)->size() == 6);
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

TEST_CASE("shards are read in any order, and their index is kept") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "data");
  write_file(folder / "data" / "1.tar", sample("x/003", 23, "0") + tar_member("x/004.cls", " 2\n") +
                                            tar_member("x/004.json", "{}") +
                                            tar_member("x/004.jpg", picture_of(24)) + tar_end());
  write_file(folder / "data" / "0.tar", sample("x/001", 21, "1") + sample("x/002.v2", 22, "0\n") + tar_end());
  const fs::path cache = folder / "cache";
  const auto check = [&] {
    const auto set = open_shards(folder / "data", Split::train, 3, cache);
    CHECK(widths_and_labels(*set) == All{{21, 1}, {22, 0}, {23, 0}, {24, 2}});
  };
  check();
  CHECK(tests::files_in(cache) == 2);
  check();
  for (const auto& index : fs::directory_iterator(cache))
    write_file(index.path(), contents(index.path()) + "x");
  check();  // made anew
  CHECK(open_shards(folder / "data" / "1.tar", Split::test, 3, cache)->size() == 2);
}

TEST_CASE("shards are indexed once for all who open them, where no folder keeps their index") {
  const TemporaryFolder folder;
  const fs::path path = folder / "0.tar";
  write_file(path, sample("cat/1", 21, "0") + sample("dog/1", 22, "1") + tar_end());
  ShardIndexes known;
  const auto train = open_shards(path, Split::train, 2, {}, &known);
  // Whoever scans the archive again finds no header.
  const auto time = fs::last_write_time(path);
  write_file(path, std::string(fs::file_size(path), 'x'));
  fs::last_write_time(path, time);
  CHECK_THROWS_AS(open_shards(path, Split::test, 2, {}), DataError);
  CHECK(open_shards(path, Split::test, 2, {}, &known)->size() == 2);
  CHECK(shard_class_names(path, 2, {}, &known) == std::vector<std::string>{"cat", "dog"});
  fs::last_write_time(path, time + std::chrono::seconds(1));
  CHECK_THROWS_AS(open_shards(path, Split::train, 2, {}, &known), DataError);
  CHECK(train->label(1) == 1);
}

TEST_CASE("shards name their classes after folders that each have one class, from the index too") {
  const TemporaryFolder folder;
  const fs::path cache = folder / "cache";
  const auto names_of = [&](const std::string& first, const std::string& second) {
    fs::remove_all(folder / "data");
    fs::create_directory(folder / "data");
    write_file(folder / "data" / "0.tar", first + tar_end());
    write_file(folder / "data" / "1.tar", second + tar_end());
    const auto names = shard_class_names(folder / "data", 3, cache);
    CHECK(shard_class_names(folder / "data", 3, cache) == names);
    return names;
  };
  using Names = std::vector<std::string>;
  CHECK(names_of(sample("train/dog/1", 20, "2") + sample("train/cat/1", 20, "0"), sample("dog/2", 20, "2")) ==
        Names{"cat", "", "dog"});
  CHECK(names_of(sample("dog/1", 20, "2"), sample("hound/2", 20, "2")).empty());
  CHECK(names_of(sample("all/1", 20, "2"), sample("all/2", 20, "1")).empty());
  CHECK(names_of(sample("1", 20, "2"), sample("cat/2", 20, "1")).empty());
}

TEST_CASE("of several pictures in a sample that without further words in its name is taken") {
  const TemporaryFolder folder;
  const fs::path path = folder / "0.tar";
  const std::string foreign =
      tar_member("._1.jpg", "x") + tar_member("README", "x") + tar_member("__info__.json", "{}");
  const std::string others = tar_member("1.coarse.cls", "2") + tar_member("1.mask.jpg", picture_of(31));
  write_file(path,
             foreign + others + sample("1", 21, "1") + tar_member("1.seg.jpg", picture_of(32)) + tar_end());
  CHECK(widths_and_labels(*open_shards(path, Split::train, 3, {})) == All{{21, 1}});
  write_file(path, sample("1", 21, "1") + tar_member("1.png", "x") + tar_end());
  CHECK(message_of<DataError>([&] {
          open_shards(path, Split::train, 3, {});
        }).ends_with("'1.png' is a second picture beside '1.jpg'"));
}

TEST_CASE("shards with samples that are none are refused with their offset") {
  const TemporaryFolder folder;
  const fs::path path = folder / "0.tar";
  const auto complaint = [&](const std::string& bytes) {
    write_file(path, bytes);
    const std::string message =
        message_of<DataError>([&] { open_shards(path, Split::train, 3, folder / "cache"); });
    const std::string prefix = path.string() + ": ";
    CHECK(message.starts_with(prefix));
    return message.substr(std::min(message.size(), prefix.size()));
  };
  CHECK(complaint(tar_member("1.cls", "0") + tar_end()) == "offset 512: sample '1' has no picture");
  CHECK(complaint(tar_member("1.jpg", "x") + tar_end()) == "offset 512: sample '1' has no .cls");
  CHECK(complaint(tar_member("1.jpg", "x") + tar_member("1.cls", "cat") + tar_end()) ==
        "offset 1536: '1.cls' holds no class number");
  CHECK(complaint(sample("1", 20, "3") + tar_end()) ==
        "offset 512: its class is 3, no class below num_classes 3");
  CHECK(complaint(tar_end()) == "no samples in its archives");
  CHECK(message_of<DataError>([&] {
          open_shards(folder.path() / "cache", Split::train, 3);
        }).ends_with("no .tar files here"));
}
