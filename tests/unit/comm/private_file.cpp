// A secret's file, or RUN/meeting, on a disk that fails.
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>

#include "comm/rendezvous/run_secret.h"
#include "kernels/base/error.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace {

/// What this thread's calls of fstat fail with, unless 0.
thread_local int stat_error = 0;

}  // namespace

extern "C" int fstat(int fd, struct stat* status) noexcept {
  if (stat_error == 0) return static_cast<int>(syscall(SYS_fstat, fd, status));
  errno = stat_error;
  return -1;
}

namespace lockstep::comm {
namespace {

namespace fs = std::filesystem;

/// While it lives fstat fails with this error, unless 0.
class FailingStat {
 public:
  explicit FailingStat(int error) { stat_error = error; }
  ~FailingStat() { stat_error = 0; }
  FailingStat(const FailingStat&) = delete;
  FailingStat& operator=(const FailingStat&) = delete;
};

/// What comes of a private file whose disk fails so.
std::optional<std::string> read_with(int error) {
  const tests::TemporaryFolder folder;
  const fs::path path = folder / "token";
  tests::write_file(path, "the secret of the test");
  fs::permissions(path, fs::perms(0600));
  const FailingStat failing(error);
  return read_private_file(path);
}

TEST_CASE("a secret's file that has been replaced on NFS counts as none", "[rendezvous]") {
  CHECK(read_with(0) == "the secret of the test");
  CHECK_FALSE(read_with(ESTALE));
}

TEST_CASE("a disk that fails under a secret's file is the machine's error, not wrong use", "[rendezvous]") {
  const std::string problem = tests::message_of<DeviceError>([] { read_with(EIO); });
  CHECK_THAT(problem, tests::contains("/token: Input/output error: is its disk in order?"));
  CommOptions options;
  options.token_file = "/proc/self/mem";  // its first byte cannot be read
  const auto environment = [](const char*) -> std::optional<std::string> { return {}; };
  CHECK(tests::message_of<DeviceError>([&] { given_secret(options, environment); }) ==
        "cannot read /proc/self/mem: Input/output error: is its disk in order?");
}

TEST_CASE("a path that leads to no secret's file is wrong use", "[rendezvous]") {
  CHECK(tests::message_of<UsageError>([] { read_private_file("/dev/null/token"); }) ==
        "cannot read /dev/null/token: Not a directory: name a file that this user may read");
}

}  // namespace
}  // namespace lockstep::comm
