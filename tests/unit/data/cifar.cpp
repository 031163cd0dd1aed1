#include "data/pictures/cifar.h"

#include <cstdlib>

#include "data/files/tar.h"
#include "data/pictures/picture_dataset.h"
#include "kernels/base/error.h"
#include "tests/support/catch.h"
#include "tests/support/child_process.h"
#include "tests/support/files.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/data/idx_bytes.h"
#include "tests/unit/data/tar_bytes.h"

using namespace lockstep;
using namespace lockstep::data;
using namespace lockstep::tests;
using namespace std::string_literals;

namespace {

namespace fs = std::filesystem;

char pixel(int sample, int at) {
  return static_cast<char>((sample * 31 + at * 7) % 251);
}

std::string planes(int sample) {
  std::string bytes;
  for (int i = 0; i < 3072; ++i) bytes += pixel(sample, i);
  return bytes;
}

/// Labels are the sample's number and 3 more.
std::string binary_batch(int first, int count) {
  std::string bytes;
  for (int i = first; i < first + count; ++i) bytes += static_cast<char>((i + 3) % 10) + planes(i);
  return bytes;
}

std::string little_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}

/// As cPickle of Python 2 wrote torchvision's files with protocol 2.
std::string python_batch(int first, int count, const std::string& dtype = "u1") {
  std::string labels;
  std::string data;
  for (int i = first; i < first + count; ++i) {
    labels += "K"s + static_cast<char>((i + 3) % 10);
    data += planes(i);
  }
  return "\x80\x02}q\x01(U\x0b"s + "batch_labelq\x02U\x15training batch 1 of 5q\x03U\x06labelsq\x04]q\x05("s +
         labels + "eU\x04"s + "dataq\x06"s + "cnumpy.core.multiarray\n_reconstruct\nq\x07"s +
         "cnumpy\nndarray\nq\x08K\x00\x85U\x01"s + "b\x87Rq\x09(K\x01K"s + static_cast<char>(count) +
         "M\x00\x0c\x86"s + "cnumpy\ndtype\nq\x0aU\x02"s + dtype +
         "K\x00K\x01\x87Rq\x0b(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T"s +
         little_endian(static_cast<std::uint32_t>(data.size())) + data + "tbu."s;
}

/// The batches by their names, two samples in each.
std::vector<std::pair<std::string, std::string>> batches(bool is_binary) {
  std::vector<std::pair<std::string, std::string>> files;
  for (int i = 0; i < 6; ++i) {
    const std::string name = i == 5 ? "test_batch" : "data_batch_" + std::to_string(i + 1);
    files.emplace_back(name + (is_binary ? ".bin" : ""),
                       is_binary ? binary_batch(2 * i, 2) : python_batch(2 * i, 2));
  }
  return files;
}

void write_folder(const fs::path& folder, bool is_binary) {
  fs::create_directories(folder);
  for (const auto& [name, bytes] : batches(is_binary)) write_file(folder / name, bytes);
}

void check_samples(const PictureSet& set, int first, int count) {
  REQUIRE(set.size() == count);
  for (int i = 0; i < count; ++i) {
    CHECK(set.label(i) == (first + i + 3) % 10);
    const auto reader = set.open(i);
    const PicturePart part = reader->read({.width = 32, .height = 32}, {32, 32});
    for (int at = 0; at < 3072; ++at) {
      REQUIRE(part.view.pixels[3 * (at % 1024) + at / 1024] ==
              static_cast<std::uint8_t>(pixel(first + i, at)));
    }
  }
}

std::string complaint(const std::string& test_batch, bool is_binary) {
  const TemporaryFolder folder;
  const std::string name = is_binary ? "test_batch.bin" : "test_batch";
  write_file(folder / name, test_batch);
  const std::string message = message_of<DataError>([&] { open_cifar10(folder.path(), Split::test); });
  const std::string prefix = (folder / name).string() + ": ";
  CHECK(message.starts_with(prefix));
  return message.substr(std::min(message.size(), prefix.size()));
}

const std::vector<std::string> names{"airplane", "automobile", "bird",  "cat",  "deer",
                                     "dog",      "frog",       "horse", "ship", "truck"};

/// As the data set's own: a line each and an empty one, or cPickle's dictionary.
std::string meta_file(bool is_binary) {
  std::string bytes =
      is_binary ? "" : "\x80\x02}q\x01(U\x13num_cases_per_batchq\x02M\x10'U\x0blabel_namesq\x03]q\x04("s;
  for (const std::string& name : names) {
    bytes += is_binary ? name + "\n" : "U"s + static_cast<char>(name.size()) + name + "q\x05";
  }
  return bytes + (is_binary ? "\n"s : "eU\x07num_visq\x0fM\x00\x0cu."s);
}

std::string tar_complaint(const std::string& bytes) {
  const std::string message =
      message_of<DataError>([&] { read_tar("a.tar", std::as_bytes(std::span(bytes))); });
  return message.substr(std::min<std::size_t>(message.size(), 7));
}

}  // namespace

TEST_CASE("CIFAR-10 is read from both folders, given or above, and from both archives") {
  const bool is_binary = GENERATE(true, false);
  const std::string name = is_binary ? "cifar-10-batches-bin" : "cifar-10-batches-py";
  const TemporaryFolder folder;
  const UnpackCache cache(folder / "cache");
  fs::path place = folder.path();
  SECTION("the folder itself") {
    place /= name;
    write_folder(place, is_binary);
  }
  SECTION("torchvision's root") {
    write_folder(place / name, is_binary);
  }
  SECTION("the archive in its folder") {
    std::string tar;
    for (const auto& [file, bytes] : batches(is_binary)) tar += tar_member(name + "/" + file, bytes);
    write_gzip(place / (is_binary ? "cifar-10-binary.tar.gz" : "cifar-10-python.tar.gz"), tar + tar_end());
  }
  check_samples(*open_cifar10(place, Split::train, cache), 0, 10);
  check_samples(*open_cifar10(place, Split::test, cache), 10, 2);
}

TEST_CASE("CIFAR-10 names its classes, in folders and archives") {
  const bool is_binary = GENERATE(true, false);
  const std::string inner = is_binary ? "cifar-10-batches-bin" : "cifar-10-batches-py";
  const std::string meta = is_binary ? "batches.meta.txt" : "batches.meta";
  const TemporaryFolder folder;
  const UnpackCache cache(folder / "cache");
  CHECK(cifar10_class_names(folder.path(), cache).empty());
  SECTION("in a folder") {
    fs::create_directory(folder / inner);
    write_file(folder / inner / meta, meta_file(is_binary));
    CHECK(cifar10_class_names(folder.path(), cache) == names);
    CHECK(cifar10_class_names(folder / inner, cache) == names);
    write_file(folder / inner / meta, is_binary ? "airplane\n" : "\x80\x02}U\x0blabel_namesK\x07s."s);
    CHECK(message_of<DataError>([&] {
            cifar10_class_names(folder.path(), cache);
          }).starts_with((folder / inner / meta).string() + ": offset "));
  }
  SECTION("in an archive") {
    const fs::path archive = folder / (is_binary ? "cifar-10-binary.tar.gz" : "cifar-10-python.tar.gz");
    write_gzip(archive, tar_member(inner + "/" + meta, meta_file(is_binary)) + tar_end());
    CHECK(cifar10_class_names(folder.path(), cache) == names);
    CHECK(cifar10_class_names(archive, cache) == names);
  }
}

TEST_CASE("CIFAR-10 names its classes where a download put it, and where it is given") {
  const TemporaryFolder folder;
  const auto names_of = find_dataset(datasets(), "cifar10").class_names;
  for (const char* place : {"lockstep/cifar10/cifar-10-batches-bin", "given/cifar-10-batches-bin"}) {
    write_folder(folder / place, true);
    write_file(folder / place / "batches.meta.txt", meta_file(true));
  }
  CHECK(names_of({.name = "cifar10", .data_dir = folder / "given"}) == names);
  CHECK(names_of({.name = "cifar10", .data_dir = folder / "elsewhere"}).empty());
  ChildProcess with_cache([&] {
    ::setenv("XDG_CACHE_HOME", folder.path().c_str(), 1);
    const bool is_opened = open_dataset({.name = "cifar10"}, Split::train)->size() == 10;
    return is_opened && names_of({.name = "cifar10"}) == names ? 0 : 1;
  });
  CHECK(with_cache.wait() == 0);
}

TEST_CASE("CIFAR-10 is padded, cropped, flipped and normalised unless something else is asked for") {
  const TemporaryFolder folder;
  write_folder(folder.path(), true);
  const DatasetEntry& entry = find_dataset(datasets(), "CIFAR-10");
  REQUIRE(entry.transforms);
  const DatasetOptions options{.name = "cifar10",
                               .data_dir = folder.path(),
                               .transform = entry.transforms->train,
                               .eval_transform = entry.transforms->eval};
  const DatasetPtr test = open_dataset(options, Split::test);
  CHECK(dataset_spec(options).input_shape == Shape{3, 32, 32});
  std::vector<float> input(3072);
  std::int64_t label = 0;
  test->get(1, 0, std::as_writable_bytes(std::span(input)), std::as_writable_bytes(std::span(&label, 1)));
  CHECK(input[5] ==
        (static_cast<float>(static_cast<std::uint8_t>(pixel(11, 5))) / 255.0F - 0.4914F) / 0.2470F);
}

TEST_CASE("damaged batches are refused with their offset") {
  std::string bytes = binary_batch(0, 3);
  CHECK(complaint(bytes.substr(0, bytes.size() - 1), true) ==
        "offset 6146: it ends within a record of 3073 bytes: truncated");
  CHECK(complaint("", true) == "offset 0: it ends within a record of 3073 bytes: truncated");
  bytes[3073] = 10;
  CHECK(complaint(bytes, true) == "offset 3073: label 10, but there are 10 classes");

  const std::string python = python_batch(0, 2);
  CHECK(complaint(python.substr(0, 2000), false).find("pickle: it ends within this: truncated") !=
        std::string::npos);
  CHECK(complaint(python_batch(0, 2, "i8"), false).find("'data' is no array of N x 3072 bytes") !=
        std::string::npos);
  CHECK(complaint("\x80\x02}U\x06labels]s."s, false) == "offset 2: there is no 'data'");
  CHECK(complaint("\x80\x02"
                  "cposix\nsystem\nU\x02ls\x85R."s,
                  false) == "offset 2: pickle: the global 'posix.system' is not among those that are read");
  std::string fewer = python;
  fewer.erase(fewer.find("K\x03K\x04"), 2);
  CHECK(complaint(fewer, false).find("'data' has 6144 bytes, but there are 1 labels") != std::string::npos);
}

TEST_CASE("what is nowhere is named, with what to do") {
  const TemporaryFolder folder;
  CHECK(message_of<DataError>([&] { open_cifar10(folder.path(), Split::train); }) ==
        folder.path().string() +
            ": here is neither cifar-10-batches-bin nor cifar-10-batches-py nor their .tar.gz; give their "
            "folder "
            "by --data-dir, or fetch them into it by --download");
  CHECK(message_of<UsageError>([] {
          open_dataset({.name = "cifar10"}, Split::train);
        }).starts_with("cifar10: give the folder"));
}

TEST_CASE("tar archives are read with long names, of GNU and of POSIX") {
  const std::string long_name(300, 'n');
  const std::string pax = "312 path=" + std::string(302, 'p') + "\n";  // a line of 312 bytes
  const std::string bytes = tar_member("a/", "", '5') + tar_member("a/1.jpg", "one") +
                            tar_member("././@LongLink", long_name + '\0', 'L') + tar_member("short", "two") +
                            tar_member("PaxHeaders/x", pax, 'x') + tar_member("short", "") + tar_end();
  const auto members = read_tar("a.tar", std::as_bytes(std::span(bytes)));
  REQUIRE(members.size() == 3);
  CHECK(members[0].name == "a/1.jpg");
  CHECK(bytes.substr(members[0].offset, members[0].size) == "one");
  CHECK(members[1].name == long_name);
  CHECK(bytes.substr(members[1].offset, members[1].size) == "two");
  CHECK(members[2].name == std::string(302, 'p'));
}

TEST_CASE("damaged archives are refused with their offset") {
  const std::string one = tar_member("a", std::string(700, 'x'));
  CHECK(tar_complaint("") == "offset 0: an empty file is no tar archive");
  CHECK(tar_complaint(one + one.substr(0, 300)) == "offset 1536: it ends within a header: truncated");
  CHECK(tar_complaint(one.substr(0, 1000)) ==
        "offset 0: 'a' has 700 bytes, but the archive ends before: truncated");
  std::string damaged = one;
  damaged[1] = 'b';
  CHECK(tar_complaint(damaged) == "offset 0: the checksum of a header is wrong: damaged, or no tar archive");
  CHECK(tar_complaint(std::string(600, 'z')) == "offset 0: a number is not octal: no tar header");
  CHECK(tar_complaint(tar_member("x", "99 path=short\n", 'x')) ==
        "offset 0: a pax header with a wrong length");
}
