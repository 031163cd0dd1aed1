#include "data/pictures/idx.h"

#include "data/pictures/picture_dataset.h"
#include "kernels/base/error.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/data/idx_bytes.h"

using namespace lockstep;
using namespace lockstep::data;
using namespace lockstep::tests;

namespace {

/// The error for an IDX file of these bytes, plain or compressed, without its name.
std::string complaint(const std::string& bytes, std::size_t rank, bool compressed = false) {
  const TemporaryFolder folder;
  const std::string path = (folder / (compressed ? "file.gz" : "file")).string();
  if (compressed) {
    write_gzip(path, bytes);
  } else {
    write_file(path, bytes);
  }
  const std::string message =
      message_of<DataError>([&] { IdxFile file(folder / "file", rank, UnpackCache(folder / "cache")); });
  if (message.empty()) return message;
  CHECK(message.rfind(path + ": ", 0) == 0);
  return message.substr(path.size() + 2);
}

/// The error for a data set of these two files.
std::string images_complaint(const std::string& images, const std::string& labels) {
  const TemporaryFolder folder;
  write_file(folder / "train-images-idx3-ubyte", images);
  write_file(folder / "train-labels-idx1-ubyte", labels);
  const std::string message = message_of<DataError>(
      [&] { open_idx_pictures(folder.path(), Split::train, "hint", UnpackCache(folder.path())); });
  const std::string prefix = folder.path().string() + "/";
  CHECK(message.rfind(prefix, 0) == 0);
  return message.substr(prefix.size());
}

}  // namespace

TEST_CASE("an IDX file is read, plain or compressed") {
  const TemporaryFolder folder;
  const std::string bytes = idx_header({2, 3}) + "abcdef";
  write_file(folder / "plain", bytes);
  write_gzip(folder / "packed.gz", bytes);
  const UnpackCache cache(folder / "cache");
  for (const char* name : {"plain", "packed"}) {
    const IdxFile file(folder / name, 2, cache);
    CHECK(file.shape() == Shape{2, 3});
    CHECK(std::string(reinterpret_cast<const char*>(file.elements().data()), file.elements().size()) ==
          "abcdef");
  }
}

TEST_CASE("a damaged header is refused with its offset, plain or compressed") {
  for (const bool compressed : {false, true}) {
    CAPTURE(compressed);
    const auto about = [compressed](const std::string& bytes, std::size_t rank) {
      return complaint(bytes, rank, compressed);
    };
    CHECK(about("", 1) == "offset 0: it ends within the magic number: truncated");
    CHECK(about(std::string("\0\0\x08", 3), 1) == "offset 3: it ends within the magic number: truncated");
    CHECK(about("PNG.....", 1) == "offset 0: the magic number is not IDX's");
    CHECK(about(std::string("\0\0\x0d\x01\0\0\0\x01....", 12), 1) ==
          "offset 2: elements of type 0x0d, not unsigned bytes (0x08)");
    CHECK(about(idx_labels(5), 3) == "offset 3: 1 dimensions, but 3 belong here: images and labels swapped?");
    CHECK(about(idx_images(1), 1) == "offset 3: 3 dimensions, but 1 belong here: images and labels swapped?");
    CHECK(about(idx_header({2, 3}).substr(0, 10), 2) ==
          "offset 10: it ends within its dimensions: truncated");
    CHECK(about(idx_header({2, 0}), 2) == "offset 8: a dimension of 0");
    CHECK(about(idx_header({0xffffffff, 0xffffffff}), 2) == "offset 4: its dimensions are too large");
  }
}

TEST_CASE("contents that do not fill the header's dimensions are refused with the offset") {
  CHECK(complaint(idx_header({2, 3}) + "abcde", 2) ==
        "offset 17: it ends here, but its header tells 18 bytes: truncated");
  CHECK(complaint(idx_header({2, 3}) + "abcdefgh", 2) ==
        "offset 18: 2 bytes behind the end that its header tells");
  CHECK(complaint(idx_header({2, 3}) + "abcde", 2, true) ==
        "offset 17 of the unpacked data: it ends here, but its header tells 18 bytes");
  CHECK(complaint(idx_header({2, 3}) + "abcdefgh", 2, true) ==
        "offset 18 of the unpacked data: bytes behind the end that its header tells");
  CHECK(complaint(idx_header({0x7fffffff}) + "abc", 1) ==
        "offset 11: it ends here, but its header tells 2147483655 bytes: truncated");
}

TEST_CASE("a damaged gzip file is refused with its offset, and nothing of it is kept") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "file.gz";
  const UnpackCache cache(folder / "cache");
  const auto complain = [&] {
    const std::string message = message_of<DataError>([&] { IdxFile file(folder / "file", 3, cache); });
    return message.substr(std::min(message.size(), path.string().size() + 2));
  };
  write_gzip(path, idx_images(100));
  const std::string whole = contents(path);

  write_file(path, whole.substr(0, whole.size() / 2));
  CHECK(complain() ==
        "offset " + std::to_string(whole.size() / 2) + ": the compressed data ends too soon: truncated");
  write_file(path, whole.substr(0, whole.size() - 1));
  CHECK(complain() ==
        "offset " + std::to_string(whole.size() - 1) + ": the compressed data ends too soon: truncated");
  std::string flipped = whole;
  flipped[whole.size() - 6] = static_cast<char>(~flipped[whole.size() - 6]);
  write_file(path, flipped);
  CHECK(complain() == "before offset " + std::to_string(whole.size() - 4) + ": incorrect data check");
  write_file(path, idx_images(100));
  CHECK(complain() == "offset 0: not in gzip format");
  CHECK(files_in(folder / "cache") == 1);  // the lock

  write_file(path, whole);
  CHECK(complain() == "");
}

TEST_CASE("images and labels become samples") {
  const TemporaryFolder folder;
  write_file(folder / "t10k-images-idx3-ubyte", idx_images(12));
  write_gzip(folder / "t10k-labels-idx1-ubyte.gz", idx_labels(12));
  const DatasetPtr set = with_transform(
      open_idx_pictures(folder.path(), Split::test, "hint", UnpackCache(folder / "cache")), {}, Split::test);
  REQUIRE(set->size() == 12);
  CHECK(set->spec().input_shape == Shape{1, 28, 28});
  CHECK(set->spec().num_classes == 10);
  std::vector<float> input(784);
  std::int64_t label = -1;
  set->get(11, 0, std::as_writable_bytes(std::span(input)), std::as_writable_bytes(std::span(&label, 1)));
  CHECK(label == 1);
  for (std::size_t i = 0; i < input.size(); ++i) {
    REQUIRE(input[i] == static_cast<float>((11 * 784 + i) * 7 % 256) / 255.0f);
  }
}

TEST_CASE("files that do not belong together are refused") {
  CHECK(images_complaint(idx_labels(5), idx_images(5)) ==
        "train-images-idx3-ubyte: offset 3: 1 dimensions, but 3 belong here: images and labels swapped?");
  const std::string count = images_complaint(idx_images(5), idx_labels(4));
  CHECK(count.rfind("train-labels-idx1-ubyte: offset 4: 4 labels, but ", 0) == 0);
  CHECK(count.find("train-images-idx3-ubyte has 5 images") != std::string::npos);
  CHECK(images_complaint(idx_header({1, 2, 2}) + "abcd", idx_labels(1)) ==
        "train-images-idx3-ubyte: offset 8: images of 2x2, but 28x28 belong here");
  std::string labels = idx_labels(5);
  labels[8 + 3] = 10;
  CHECK(images_complaint(idx_images(5), labels) ==
        "train-labels-idx1-ubyte: offset 11: label 10, but there are 10 classes");
}

TEST_CASE("a missing file is named, with the hint") {
  const TemporaryFolder folder;
  CHECK(message_of<DataError>([&] { open_idx_pictures(folder.path(), Split::train, "apt install it"); }) ==
        (folder / "train-images-idx3-ubyte").string() +
            ": neither this file nor its .gz is there; apt install it");
}
