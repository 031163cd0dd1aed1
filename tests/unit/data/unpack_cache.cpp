#include "data/files/unpack_cache.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <sstream>

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include "data/pictures/idx.h"
#include "kernels/base/log.h"
#include "tests/support/catch.h"
#include "tests/support/child_process.h"
#include "tests/support/files.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"
#include "tests/unit/data/idx_bytes.h"

using namespace lockstep;
using namespace lockstep::data;
using namespace lockstep::tests;

namespace {

UnpackCache::SizeOf size_is(std::uint64_t size) {
  return [size](auto) { return size; };
}

std::string text_of(const FileBytes& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

ino_t inode_of_only_contents(const std::filesystem::path& cache) {
  for (const auto& file : std::filesystem::directory_iterator(cache)) {
    struct stat status {};
    if (file.path().extension() != ".lock" && ::stat(file.path().c_str(), &status) == 0) return status.st_ino;
  }
  return 0;
}

/// In a child whose cache folder `hinder` spoils: data must come all the same, with one warning that has
/// `reason`.
void check_fall_back(const std::function<bool(const std::filesystem::path&)>& hinder,
                     const std::string& reason) {
  const TemporaryFolder folder;
  const std::string bytes = idx_images(200);
  write_gzip(folder / "a.gz", bytes);
  write_gzip(folder / "b.gz", bytes);
  std::filesystem::create_directory(folder / "cache");
  ChildProcess child([&] {
    if (!have_own_mounts() || !hinder(folder / "cache")) return not_allowed;
    std::ostringstream log;
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
    const UnpackCache cache(folder / "cache");
    if (text_of(cache.open(folder / "a.gz", size_is(bytes.size()))) != bytes) return 1;
    if (text_of(cache.open(folder / "b.gz", size_is(bytes.size()))) != bytes) return 2;
    if (count_of(log.str(), "cannot keep unpacked data") != 1) return 3;
    if (count_of(log.str(), reason) != 1) return 4;
    return 0;
  });
  const int result = child.wait();
  if (result == not_allowed) {
    tests::skip("a mount namespace of one's own needs root");
  } else {
    CHECK(result == 0);
  }
}

}  // namespace

TEST_CASE("contents are unpacked once and found again") {
  const TemporaryFolder folder;
  write_gzip(folder / "file.gz", "some text");
  const UnpackCache cache(folder / "deep/cache");
  CHECK(text_of(cache.open(folder / "file.gz", size_is(9))) == "some text");
  const ino_t kept = inode_of_only_contents(folder / "deep/cache");
  CHECK(text_of(cache.open(folder / "file.gz", size_is(9))) == "some text");
  CHECK(inode_of_only_contents(folder / "deep/cache") == kept);
  CHECK(files_in(folder / "deep/cache") == 2);  // contents and lock
}

TEST_CASE("a file that changed is unpacked anew, and its old contents go when no other host may map them") {
  const TemporaryFolder folder;
  const UnpackCache cache(folder / "cache");
  write_gzip(folder / "file.gz", "first");
  CHECK(text_of(cache.open(folder / "file.gz", size_is(5))) == "first");
  const bool are_old = GENERATE(true, false);
  const auto age = are_old ? std::chrono::hours(25) : std::chrono::hours(23);
  for (const auto& file : std::filesystem::directory_iterator(folder / "cache"))
    std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now() - age);
  write_gzip(folder / "file.gz", "other");
  // The same size and a new time: the key must have both.
  const struct timespec times[2] = {{1000, 0}, {1000, 500}};
  REQUIRE(::utimensat(AT_FDCWD, (folder / "file.gz").c_str(), times, 0) == 0);
  CHECK(text_of(cache.open(folder / "file.gz", size_is(5))) == "other");
  CHECK(files_in(folder / "cache") == (are_old ? 2 : 3));  // contents and lock
}

TEST_CASE("kept contents that were cut are unpacked again") {
  const TemporaryFolder folder;
  const UnpackCache cache(folder / "cache");
  write_gzip(folder / "file.gz", "some text");
  cache.open(folder / "file.gz", size_is(9));
  for (const auto& file : std::filesystem::directory_iterator(folder / "cache")) {
    if (file.path().extension() != ".lock") std::filesystem::resize_file(file.path(), 4);
  }
  CHECK(text_of(cache.open(folder / "file.gz", size_is(9))) == "some text");
}

TEST_CASE("files of one name in two folders are told apart") {
  const TemporaryFolder folder;
  const UnpackCache cache(folder / "cache");
  std::filesystem::create_directories(folder / "a");
  std::filesystem::create_directories(folder / "b");
  write_gzip(folder / "a/file.gz", "a");
  write_gzip(folder / "b/file.gz", "b");
  CHECK(text_of(cache.open(folder / "a/file.gz", size_is(1))) == "a");
  CHECK(text_of(cache.open(folder / "b/file.gz", size_is(1))) == "b");
  CHECK(text_of(cache.open(folder / "a/file.gz", size_is(1))) == "a");
}

TEST_CASE("of several processes at once one unpacks") {
  const TemporaryFolder folder;
  const std::string bytes = idx_images(2000);
  write_gzip(folder / "file.gz", bytes);
  int gate[2];
  int unpacked[2];
  REQUIRE(::pipe(gate) == 0);
  REQUIRE(::pipe(unpacked) == 0);
  const auto open_after_the_gate = [&] {
    char go = 0;
    ::close(gate[1]);
    if (::read(gate[0], &go, 1) != 0) return 1;
    bool first = true;
    const UnpackCache::SizeOf note_the_unpacker = [&](std::span<const std::byte> head) {
      // A mapped file is asked as a whole, a stream by its first piece.
      if (std::exchange(first, false) && head.size() < bytes.size() && ::write(unpacked[1], "u", 1) != 1)
        return 0ul;
      return bytes.size();
    };
    return text_of(UnpackCache(folder / "cache").open(folder / "file.gz", note_the_unpacker)) == bytes ? 0
                                                                                                       : 2;
  };
  std::vector<std::unique_ptr<ChildProcess>> children;
  for (int i = 0; i < 4; ++i) children.push_back(std::make_unique<ChildProcess>(open_after_the_gate));
  ::close(gate[0]);
  ::close(gate[1]);
  for (auto& child : children) CHECK(child->wait() == 0);
  ::close(unpacked[1]);
  char unpackers[8];
  CHECK(::read(unpacked[0], unpackers, sizeof unpackers) == 1);
  ::close(unpacked[0]);
  CHECK(files_in(folder / "cache") == 2);
}

TEST_CASE("a read-only cache folder costs one warning") {
  check_fall_back(make_read_only, "Read-only file system");
}

TEST_CASE("a full cache folder costs one warning") {
  check_fall_back(make_tiny, "No space left on device");
}

TEST_CASE("contents that find no room to be mapped do not go into memory either") {
  const TemporaryFolder folder;
  const std::string text(std::size_t{64} << 20, '1');
  write_gzip(folder / "file.gz", text);
  const UnpackCache cache(folder / "cache");
  CHECK(cache.open(folder / "file.gz", size_is(text.size())).bytes().size() == text.size());
  ChildProcess child([&] {
    const rlimit limited{.rlim_cur = 0, .rlim_max = 0};
    if (::setrlimit(RLIMIT_AS, &limited) != 0) return 1;
    try {
      cache.open(folder / "file.gz", size_is(text.size()));
    } catch (const ExhaustedError&) {
      return 0;
    }
    return 2;
  });
  CHECK(child.wait() == 0);
}

TEST_CASE("without any folder data is unpacked into memory") {
  const TemporaryFolder folder;
  write_gzip(folder / "file.gz", "some text");
  CHECK(text_of(UnpackCache(std::filesystem::path()).open(folder / "file.gz", size_is(9))) == "some text");
}
