#include "launcher/exit_status.h"

#include <csignal>

#include "tests/support/catch.h"

namespace lockstep::launcher {
namespace {

ExitStatus left(int rank, int code) {
  return {.rank = rank, .code = code, .signal = 0, .when = {}};
}
ExitStatus killed(int rank, int signal) {
  return {.rank = rank, .code = 0, .signal = signal, .when = {}};
}
ExitStatus echo(ExitStatus status) {
  status.after_failure = true;
  return status;
}
ExitStatus by_us(ExitStatus status) {
  status.killed_by_us = true;
  return status;
}

TEST_CASE("nothing decides a run that ended well") {
  CHECK_FALSE(root_cause({left(0, 0), left(1, 0)}));
}

TEST_CASE("the first failure decides, never its echo") {
  CHECK(root_cause({left(1, 3), echo(killed(0, SIGTERM))})->rank == 1);
  CHECK(root_cause({left(0, 5), killed(1, SIGKILL)})->rank == 1);
  CHECK(root_cause({left(0, 5), left(2, 5), left(1, 2)})->rank == 1);
  CHECK(root_cause({left(0, 5), echo(killed(1, SIGKILL))})->rank == 0);
  CHECK(root_cause({left(0, 0), left(1, 5)})->rank == 1);
  CHECK(root_cause({left(0, 3), killed(1, SIGSEGV)})->rank == 0);
}

TEST_CASE("a stop after saving gives 75 unless a rank failed") {
  CHECK(root_cause({left(0, 75), left(1, 75)})->exit_code() == 75);
  CHECK(root_cause({left(0, 75), left(1, 3)})->exit_code() == 3);
  CHECK(root_cause({left(0, 75), by_us(killed(1, SIGKILL))})->exit_code() == 75);
  CHECK(root_cause({left(0, 0), by_us(killed(1, SIGKILL))})->exit_code() == 137);
}

TEST_CASE("statuses in words and as a shell's code") {
  CHECK(describe(killed(0, SIGKILL)) == "was killed by SIGKILL");
  CHECK(describe(left(0, 3)) == "left with exit code 3");
  CHECK(killed(0, SIGSEGV).exit_code() == 139);
}

}  // namespace
}  // namespace lockstep::launcher
