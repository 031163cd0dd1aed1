// Programs that leave the rank to a process in a session of its own and end, as setsid does in a process
// group of which it is the first.
#include <csignal>

#include <fmt/format.h>

#include "tests/fault/launch_process.h"
#include "tests/support/catch.h"

namespace lockstep::launcher {
namespace {

using tests::contains;

std::vector<std::string> under_setsid(const std::string& traps) {
  return {"--nproc_per_node=2", "setsid", "sh", "-c", traps + " sleep 1000 & echo pid$RANK=$$.; wait"};
}

/// Until launch has seen that both ranks go on.
void wait_for_ranks(LaunchProcess& launch) {
  launch.wait_for(".\n", 2);
  launch.wait_for("which the program that launch started has left in its place\n", 2);
  for (const int rank : {0, 1}) {
    const pid_t pid = launch.number_after(fmt::format("pid{}", rank));
    INFO(launch.output());
    CHECK_THAT(launch.output(), contains(fmt::format("launch: rank {} goes on as ", rank)) &&
                                    contains(fmt::format("(pid {}), which", pid)));
  }
}

TEST_CASE("a rank that setsid starts lives until its end, and gives the exit code") {
  LaunchProcess launch(under_setsid("trap 'exit 7' USR1;"));
  wait_for_ranks(launch);
  kill(launch.number_after("pid1"), SIGUSR1);
  CHECK(launch.wait_for_end() == 7);
  CHECK_THAT(launch.output(), contains("launch: rank 1 (pid ") && contains("left with exit code 7") &&
                                  contains("then rank 0 was killed by SIGTERM"));
  CHECK(wait_until_gone(launch.number_after("pid0")));
}

TEST_CASE("ranks that setsid starts end well, and are told to stop, as others") {
  const bool is_told = GENERATE(false, true);
  LaunchProcess launch(under_setsid("trap 'exit 75' TERM; trap 'exit 0' USR1;"));
  wait_for_ranks(launch);
  if (is_told) kill(launch.pid(), SIGTERM);
  for (const char* rank : {"pid0", "pid1"}) {
    if (!is_told) kill(launch.number_after(rank), SIGUSR1);
  }
  CHECK(launch.wait_for_end() == (is_told ? 75 : 0));
}

TEST_CASE("what goes on in a rank's place may end before launch sees that the rank's program has") {
  // While launch stands still the program ends, and after it what it has started, which is launch's child
  // then.
  LaunchProcess launch(
      {"--nproc_per_node=1", "sh", "-c",
       "kill -STOP $PPID; "
       "setsid sh -c 'until read -r _ _ _ parent _ </proc/$$/stat && [ $parent = $0 ]; do :; done; "
       "exit 7' $PPID & S=$!; "
       "{ until read -r _ _ state _ </proc/$S/stat && [ $state = Z ]; do :; done; kill -CONT $PPID; } & "
       "exit 0"});
  CHECK(launch.wait_for_end() == 7);
}

TEST_CASE("SIGKILL of launch ends what setsid has started, too") {
  LaunchProcess launch(under_setsid(""));
  wait_for_ranks(launch);
  kill(launch.pid(), SIGKILL);
  for (const char* rank : {"pid0", "pid1"}) CHECK(wait_until_gone(launch.number_after(rank)));
}

}  // namespace
}  // namespace lockstep::launcher
