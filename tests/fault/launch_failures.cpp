#include <csignal>

#include "tests/fault/launch_process.h"
#include "tests/support/catch.h"

namespace lockstep::launcher {
namespace {

using tests::contains;

/// A worker that tells its pid and waits for ever, in a shell that does not leave a child behind.
const std::string tell_and_wait = "echo pid$RANK=$$.; exec sleep 1000";

std::vector<std::string> shell(int ranks, const std::string& script,
                               const std::vector<std::string>& options = {}) {
  std::vector<std::string> arguments = {"--nproc_per_node=" + std::to_string(ranks)};
  arguments.insert(arguments.end(), options.begin(), options.end());
  arguments.insert(arguments.end(), {"sh", "-c", script});
  return arguments;
}

TEST_CASE("the first failure stops the other ranks and gives the exit code") {
  LaunchProcess launch(shell(3, "[ $RANK = 1 ] && exit 42; " + tell_and_wait));
  CHECK(launch.wait_for_end() == 42);
  CHECK_THAT(launch.output(), contains("launch: rank 1 (pid "));
  CHECK_THAT(launch.output(), contains("left with exit code 42 after"));
  CHECK_THAT(launch.output(),
             contains("ranks 0, 2 were killed by SIGTERM") || contains("ranks 2, 0 were killed by SIGTERM"));
}

TEST_CASE("a rank killed by a signal is named, its code is 128 + n, and nobody is left") {
  LaunchProcess launch(shell(2, tell_and_wait));
  launch.wait_for(".\n", 2);
  const pid_t victim = launch.number_after("pid1");
  const pid_t other = launch.number_after("pid0");
  kill(victim, SIGKILL);
  CHECK(launch.wait_for_end() == 128 + SIGKILL);
  CHECK_THAT(launch.output(),
             contains("rank 1 (pid " + std::to_string(victim) + ") was killed by SIGKILL after"));
  CHECK(wait_until_gone(other));
}

TEST_CASE("the message of the failing rank's error file is shown") {
  LaunchProcess launch(shell(
      2,
      R"([ $RANK = 0 ] && exec sleep 1000; echo '{"message": "no such file"}' >$TORCHELASTIC_ERROR_FILE; exit 3)"));
  CHECK(launch.wait_for_end() == 3);
  CHECK_THAT(launch.output(), contains("it said: no such file"));
}

TEST_CASE("a rank that left because its peer died is no first cause") {
  // Rank 1 dies as soon as launch has seen rank 0 leave with 5: later than the echo, and still the cause.
  LaunchProcess launch(shell(2,
                             "F=${TORCHELASTIC_ERROR_FILE%/*/*}/first; "
                             "[ $RANK = 0 ] && { echo $$ >$F.new; mv $F.new $F; exit 5; }; "
                             "until [ -e $F ]; do :; done; read first <$F; "
                             "while kill -0 $first 2>/dev/null; do :; done; kill -SEGV $$"));
  CHECK(launch.wait_for_end() == 128 + SIGSEGV);
  CHECK_THAT(launch.output(), contains("launch: rank 1 (pid "));
  CHECK_THAT(launch.output(), contains("then rank 0 left with exit code 5"));
}

TEST_CASE("a rank that is about to leave with a reason of its own has time to tell the others") {
  LaunchProcess launch(shell(2,
                             "F=${TORCHELASTIC_ERROR_FILE%/*/*}/told; "
                             "[ $RANK = 1 ] && { until [ -e $F ]; do :; done; exit 5; }; "
                             ": >$F; sleep 0.15; exit 4"));
  CHECK(launch.wait_for_end() == 4);
  CHECK_THAT(launch.output(), contains("launch: rank 0 (pid "));
}

/// Rank 1 ignores SIGTERM and says so in a file; rank 0 then leaves with `code`.
std::string leave_deaf_peer(int code) {
  return "F=${TORCHELASTIC_ERROR_FILE%/*/*}/deaf; "
         "[ $RANK = 0 ] && { until [ -e $F ]; do sleep 0.01; done; exit " +
         std::to_string(code) + "; }; trap '' TERM; : >$F; while :; do sleep 1000; done";
}

TEST_CASE("after a rank left with 5 the others get a second, not the whole shutdown timeout") {
  LaunchProcess launch(shell(2, leave_deaf_peer(5)));
  CHECK(launch.wait_for_end() == 5);
  CHECK(launch.age() > Seconds(0.9));
  CHECK(launch.age() < Seconds(15));
  CHECK_THAT(launch.output(), contains("then rank 1 was killed by SIGKILL"));
}

TEST_CASE("a rank that ignores SIGTERM is killed when the shutdown timeout has passed") {
  LaunchProcess launch(shell(2, leave_deaf_peer(1), {"--shutdown_timeout=0.5"}));
  CHECK(launch.wait_for_end() == 1);
  CHECK(launch.age() > Seconds(0.4));
  CHECK_THAT(launch.output(), contains("then rank 1 was killed by SIGKILL"));
}

TEST_CASE("a stopped rank is killed at once when another fails") {
  LaunchProcess launch(shell(
      2, "echo pid$RANK=$$.; [ $RANK = 0 ] && exec sleep 1000; trap '' TERM; while :; do sleep 1000; done"));
  launch.wait_for(".\n", 2);
  stop(launch.number_after("pid1"));
  kill(launch.number_after("pid0"), SIGKILL);
  CHECK(launch.wait_for_end() == 128 + SIGKILL);
  CHECK(launch.age() < Seconds(15));  // the shutdown timeout is 30 s
  CHECK_THAT(launch.output(), contains("launch: rank 0 (pid "));
}

TEST_CASE("a stopped rank that another's failure ends is said to be killed, not how it would go on") {
  // Nothing tells that launch keeps silent: it would name a stopped rank that nobody misses after 5 s.
  LaunchProcess launch(shell(2, "[ $RANK = 0 ] && { sleep 6; exit 5; }; kill -STOP $$"));
  CHECK(launch.wait_for_end() == 5);
  CHECK_THAT(launch.output(), contains("launch: rank 1 (pid ") &&
                                  contains("is stopped, so it cannot end by itself: launch kills it\n") &&
                                  !contains("continues it"));
}

TEST_CASE("a rank that ended well and left a helper is none that another's failure kills") {
  LaunchProcess launch(shell(2,
                             "F=${TORCHELASTIC_ERROR_FILE%/*/*}/left; "
                             "[ $RANK = 0 ] && { sleep 1000 & echo $$ >$F.new; mv $F.new $F; exit 0; }; "
                             "until [ -e $F ]; do :; done; read -r PID <$F; "
                             "while kill -0 $PID 2>/dev/null; do :; done; exit 3",
                             {"--shutdown_timeout=600"}));
  CHECK(launch.wait_for_end() == 3);
  CHECK_THAT(launch.output(), contains("launch: rank 1 (pid ") && !contains("rank 0 was killed"));
}

TEST_CASE("SIGKILL of launch leaves nothing") {
  LaunchProcess launch(shell(2, "sleep 1000 & echo child$RANK=$!.; " + tell_and_wait));
  launch.wait_for(".\n", 4);
  kill(launch.pid(), SIGKILL);
  for (const char* name : {"pid0", "pid1", "child0", "child1"}) {
    INFO(name);
    CHECK(wait_until_gone(launch.number_after(name)));
  }
}

TEST_CASE("processes that a failed worker started go with it") {
  LaunchProcess launch(
      shell(2, "trap 'exit 9' USR1; sleep 1000 & echo child$RANK=$!.; echo pid$RANK=$$.; wait"));
  launch.wait_for(".\n", 4);
  kill(launch.number_after("pid1"), SIGUSR1);
  CHECK(launch.wait_for_end() == 9);
  CHECK(wait_until_gone(launch.number_after("child0")));
  CHECK(wait_until_gone(launch.number_after("child1")));
}

TEST_CASE("what cannot be started is exit code 2, a device that is missing 4") {
  const auto code = [](const std::vector<std::string>& arguments, const std::string& text) {
    LaunchProcess launch(arguments);
    const int result = launch.wait_for_end();
    CHECK_THAT(launch.output(), contains(text));
    return result;
  };
  CHECK(code({"nosuchprogram"}, "neither beside launch nor in PATH") == 2);
  CHECK(code({"/etc/passwd"}, "not executable") == 2);
  CHECK(code({"--nproc_per_nod=2", "true"}, "did you mean '--nproc-per-node'?") == 2);
  CHECK(code({"--world-size=2", "true"}, "are given by --nproc_per_node=N") == 2);
  CHECK(code({"--nproc_per_node=2"}, "no program to start") == 2);
  CHECK(code({"--nnodes=1:4", "true"}, "not in this version") == 2);
  CHECK(code({"--nproc_per_node=2", "--tee=7:3", "true"}, "there is no local rank 7") == 2);
  CHECK(code({"--nproc_per_node=0", "true"}, "is not in the range 1 to 4096") == 2);
  setenv("PET_NPROC_PER_NODE", "some", 1);
  CHECK(code({"true"}, "launch: PET_NPROC_PER_NODE") == 2);
  unsetenv("PET_NPROC_PER_NODE");
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  CHECK(code({"--nproc_per_node=gpu", "true"}, "no GPU is visible") == 4);
}

}  // namespace
}  // namespace lockstep::launcher
