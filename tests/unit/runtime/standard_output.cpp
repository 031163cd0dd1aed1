// What a command says where standard output takes no more, and its errors.
#include "runtime/output/standard_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <stdexcept>
#include <system_error>

#include "kernels/base/json.h"
#include "kernels/base/unique_fd.h"
#include "runtime/commands/commands.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/variable.h"

namespace lockstep::runtime {
namespace {

/// Standard output is a full disk to the end of the scope.
class FullOutput {
 public:
  FullOutput() {
    std::fflush(stdout);
    const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
    ::dup2(full.get(), STDOUT_FILENO);
  }
  ~FullOutput() { ::dup2(before_.get(), STDOUT_FILENO); }
  FullOutput(const FullOutput&) = delete;
  FullOutput& operator=(const FullOutput&) = delete;

 private:
  const UniqueFd before_{::dup(STDOUT_FILENO)};
};

TEST_CASE("a failure of something else, after standard output has lost text, is not taken for its own") {
  const int error = [] {
    const FullOutput output;
    return try_print("lost\n");
  }();
  CHECK(error == ENOSPC);
  CHECK_NOTHROW(name_lost_output(std::system_error(std::make_error_code(std::errc::io_error))));
}

TEST_CASE("an error that is none of ours is one line, too") {
  const tests::TemporaryFolder folder;
  const tests::Variable file("TORCHELASTIC_ERROR_FILE", folder / "error.json");
  CHECK(run_reporting_errors([]() -> int { throw std::runtime_error("no file 'a\nb'"); }) == 4);
  const Json told = Json::parse(tests::contents(folder / "error.json"));
  CHECK(told["message"]["message"].get<std::string>() == "internal error, please report it: no file 'a\\nb'");
}

}  // namespace
}  // namespace lockstep::runtime
