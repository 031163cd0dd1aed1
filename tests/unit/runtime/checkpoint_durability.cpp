// What a checkpoint flushes, and when: after a crash of the machine its name must not be there without its
// files, nor `latest` without it. The calls are looked at, as no test pulls the plug.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "runtime/checkpoint/checkpoint_directory.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace {

thread_local std::vector<std::string>* calls = nullptr;  ///< of this thread, while it is looked at
thread_local bool has_links = true;                      ///< the disk, for this thread

std::string file_name_of(int fd) {
  return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd)).filename();
}

}  // namespace

/// Take the place of libc's in this program.
extern "C" int fsync(int fd) {
  if (calls != nullptr) calls->push_back("flush " + file_name_of(fd));
  return static_cast<int>(syscall(SYS_fsync, fd));
}

extern "C" int rename(const char* from, const char* to) noexcept {
  if (calls != nullptr) calls->push_back("rename to " + std::filesystem::path(to).filename().string());
  return static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

extern "C" int symlink(const char* target, const char* link) noexcept {
  if (has_links) return static_cast<int>(syscall(SYS_symlinkat, target, AT_FDCWD, link));
  errno = EPERM;
  return -1;
}

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;

TEST_CASE("a checkpoint is flushed before it gets its name, and the name before latest points there") {
  const tests::TemporaryFolder folder;
  const CheckpointDirectory directory(folder / "checkpoints");
  std::vector<std::string> seen;
  std::string scratch;
  directory.add(7, [&](const fs::path& path) {
    scratch = path.filename();
    for (const char* name : checkpoint_files) tests::write_file(path / name, name);
    write_manifest(path);
    calls = &seen;
  });
  calls = nullptr;
  CHECK(seen == std::vector<std::string>{"flush " + scratch, "rename to step-00000007", "flush checkpoints",
                                         "rename to latest", "flush checkpoints"});
}

TEST_CASE("a disk without symbolic links has checkpoints all the same") {
  const tests::TemporaryFolder folder;
  const CheckpointDirectory directory(folder / "checkpoints");
  has_links = false;
  CHECK_NOTHROW(directory.add(7, [](const fs::path& path) { tests::write_file(path / "state.json", "{}"); }));
  CHECK_NOTHROW(directory.set_latest(7));
  has_links = true;
  CHECK(directory.steps() == std::vector<std::int64_t>{7});
  CHECK(tests::files_in(directory.folder()) == 1);
  directory.set_latest(7);
  CHECK(fs::read_symlink(directory.folder() / "latest") == "step-00000007");
}

TEST_CASE("the manifest of a checkpoint is flushed before it gets its name") {
  const tests::TemporaryFolder folder;
  for (const char* name : checkpoint_files) tests::write_file(folder / name, name);
  std::vector<std::string> seen;
  calls = &seen;
  write_manifest(folder.path());
  calls = nullptr;
  REQUIRE(seen.size() >= 2);
  CHECK_THAT(seen[0], tests::contains("flush .manifest.json."));
  CHECK(seen[1] == "rename to manifest.json");
}

}  // namespace
}  // namespace lockstep::runtime
