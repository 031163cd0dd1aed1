// Who may write in RUN/, and when a folder that was made for it goes again.
#include "runtime/checkpoint/run_access.h"

#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "comm/make_communicator.h"
#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "runtime/checkpoint/run_directory.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/message_of.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;
using tests::write_file;

TEST_CASE("a folder that was made for a run goes with its lock, unless it is kept or holds more") {
  const tests::TemporaryFolder folder;
  const auto communicator = comm::make_communicator({}, {});
  const fs::path run = folder / "made/run";
  const auto is_made = [&] { return agree_on_run_directory(*communicator, run, "none").is_new; };
  {
    REQUIRE(is_made());
    const NewRunFolder made(run, nullptr);
    const RunLock lock(run, "holder");
  }
  CHECK_FALSE(fs::exists(run));
  {
    REQUIRE(is_made());
    NewRunFolder made(run, nullptr);
    made.keep();
  }
  CHECK(fs::exists(run));
  CHECK_FALSE(is_made());
  {
    const NewRunFolder made(run, nullptr);
    write_file(run / "notes.txt", "mine");
  }
  CHECK(tests::files_in(run) == 1);
  fs::remove(run / "notes.txt");
  const RunLock of_another_run(run, "another");
  { const NewRunFolder made(run, nullptr); }
  CHECK(fs::exists(run / "lock"));
}

TEST_CASE("a folder is in use by another run, where the holder's lock does not tell who that is") {
  const tests::TemporaryFolder folder;
  const RunLock holder(folder.path(), {});
  CHECK_THAT(tests::message_of<UsageError>([&] { const RunLock lock(folder.path(), "second"); }),
             tests::contains("is in use by another run: wait for it"));
}

TEST_CASE("a new run's folder that everyone could write is refused, and goes") {
  const tests::TemporaryFolder folder;
  const auto communicator = comm::make_communicator({}, {});
  const ::mode_t before = ::umask(0);
  const std::string refusal =
      tests::message_of<UsageError>([&] { agree_on_run_directory(*communicator, folder / "run", "none"); });
  ::umask(before);
  CHECK_THAT(refusal, tests::contains("run could be written by others: set umask 022, or make it first: "
                                      "mkdir -m 755 " +
                                      (folder / "run").string()));
  CHECK_FALSE(fs::exists(folder / "run"));
}

/// This umask while the scope lasts.
class Umask {
 public:
  explicit Umask(mode_t mask) : before_(::umask(mask)) {}
  Umask(const Umask&) = delete;
  Umask& operator=(const Umask&) = delete;
  ~Umask() { ::umask(before_); }

 private:
  const mode_t before_;
};

/// RUN/ and a file in it, made by a process of this umask.
std::string reason_to_distrust_what_is_made(mode_t mask, const fs::path& run) {
  const auto communicator = comm::make_communicator({}, {});
  const Umask umask(mask);
  mask_writes_of_others();
  agree_on_run_directory(*communicator, run, "none");
  write_file_atomically(run / "config.ini", "");
  return reason_to_distrust_run(run);
}

TEST_CASE("what a process makes in RUN is trusted at its next start, whatever its umask") {
  const tests::TemporaryFolder folder;
  for (const mode_t mask : {0U, 02U, 022U, 077U}) {
    const fs::path run = folder / std::to_string(mask);
    CHECK(reason_to_distrust_what_is_made(mask, run).empty());
    struct stat file {};
    REQUIRE(::stat((run / "config.ini").c_str(), &file) == 0);
    CHECK((file.st_mode & 0777U) == (0664U & ~mask));
  }
}

TEST_CASE("what a process makes in a folder that hands a foreign group on is trusted at its next start") {
  const tests::TemporaryFolder folder;
  if (::geteuid() != 0 || ::chown(folder.path().c_str(), 0, 12345) != 0)
    return tests::skip("only root can give files away");
  REQUIRE(::chmod(folder.path().c_str(), 02775) == 0);
  fs::create_directory(folder / "before");
  for (const char* run : {"new", "before"}) {
    CAPTURE(run);
    CHECK(reason_to_distrust_what_is_made(0002, folder / run).empty());
  }
}

}  // namespace
}  // namespace lockstep::runtime
