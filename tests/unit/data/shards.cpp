#include "data/pictures/shards.h"

#include <chrono>

#include "kernels/base/activity.h"
#include "kernels/base/error.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/data/picture_sets.h"
#include "tests/unit/data/tar_bytes.h"

using namespace lockstep;
using namespace lockstep::data;
using namespace lockstep::data::testing;
using namespace lockstep::tests;

namespace {

namespace fs = std::filesystem;

std::string sample(const std::string& key, int width, const std::string& label) {
  return tar_member(key + ".jpg", picture_of(width)) + tar_member(key + ".cls", label);
}

}  // namespace

TEST_CASE("archives are trained on beside a folder of those that are evaluated") {
  const TemporaryFolder folder;
  const auto widths = [&](Split split) {
    return widths_and_labels(*open_shards(folder.path(), split, 3, folder / "cache"));
  };
  write_file(folder / "train-0.tar", sample("1", 21, "1") + tar_end());
  fs::create_directory(folder / "val");
  CHECK(widths(Split::test) == All{{21, 1}});
  write_file(folder / "val" / "0.tar", sample("__ab", 22, "2") + tar_end());
  CHECK(widths(Split::train) == All{{21, 1}});
  CHECK(widths(Split::test) == All{{22, 2}});
  fs::remove(folder / "train-0.tar");
  CHECK(widths(Split::test) == All{{22, 2}});
  CHECK_THROWS_AS(widths(Split::train), DataError);
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
  Activity activity;
  open_shards(folder / "data", Split::train, 3, cache, nullptr, &activity);
  CHECK(activity.advances() == 2);
  CHECK(open_shards(folder / "data" / "1.tar", Split::test, 3, cache)->size() == 2);
}

TEST_CASE("shards are scanned where their kept index cannot be read, nor another one be kept") {
  const TemporaryFolder folder;
  const fs::path path = folder / "0.tar";
  write_file(path, sample("1", 21, "1") + tar_end());
  const auto check = [&](const fs::path& cache) {
    CHECK(widths_and_labels(*open_shards(path, Split::train, 2, cache)) == All{{21, 1}});
  };
  check(folder / "cache");
  const fs::path index = fs::directory_iterator(folder / "cache")->path();
  fs::remove(index);
  fs::create_directory(index);
  check(folder / "cache");
  fs::create_symlink("loop", folder / "loop");
  check(folder / "loop");
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
