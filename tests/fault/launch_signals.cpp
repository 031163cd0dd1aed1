#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "tests/fault/launch_process.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::launcher {
namespace {

using tests::contains;

/// Two workers that run `on_signal` when told, and wait meanwhile. `wait` returns at a trapped signal, sleep
/// would not.
std::vector<std::string> trapping(const std::string& signal, const std::string& on_signal) {
  return {"--nproc_per_node=2", "sh", "-c",
          "trap '" + on_signal + "' " + signal + "; sleep 1000 & echo pid$RANK=$$.; wait; wait"};
}

TEST_CASE("signals are passed on to every rank") {
  for (const auto& [number, name] :
       {std::pair{SIGTERM, "TERM"}, {SIGINT, "INT"}, {SIGUSR1, "USR1"}, {SIGHUP, "HUP"}}) {
    INFO(name);
    LaunchProcess launch(trapping(name, "echo told$RANK; exit 0"));
    launch.wait_for(".\n", 2);
    kill(launch.pid(), number);
    CHECK(launch.wait_for_end() == 0);
    CHECK_THAT(launch.output(), contains("told0") && contains("told1"));
  }
}

TEST_CASE("75 after a passed-on SIGTERM is returned as 75") {
  LaunchProcess launch(trapping("TERM", "exit 75"));
  launch.wait_for(".\n", 2);
  kill(launch.pid(), SIGTERM);
  CHECK(launch.wait_for_end() == 75);
  CHECK_THAT(launch.output(), contains("launch: stopped by SIGTERM (exit code 75)"));
}

TEST_CASE("ranks that leave with 75 one after the other are not hurried") {
  // Rank 0 still saves when rank 1 has left: a second SIGTERM would end it with 1.
  LaunchProcess launch({"--nproc_per_node=2", "sh", "-c",
                        "F=${TORCHELASTIC_ERROR_FILE%/*/*}/left; "
                        "trap 'exit 1' TERM; [ $RANK = 1 ] && { touch $F; exit 75; }; "
                        "until [ -e $F ]; do sleep 0.01; done; sleep 0.3; echo saved; exit 75"});
  CHECK(launch.wait_for_end() == 75);
  CHECK_THAT(launch.output(), contains("saved"));
}

TEST_CASE("a stopped rank is continued so that it can act on a signal") {
  LaunchProcess launch(trapping("TERM", "exit 75"));
  launch.wait_for(".\n", 2);
  stop(launch.number_after("pid1"));
  kill(launch.pid(), SIGTERM);
  CHECK(launch.wait_for_end() == 75);
}

TEST_CASE("a rank that is stopped when the others have done their work is named") {
  LaunchProcess launch({"--nproc_per_node=2", "sh", "-c",
                        "[ $RANK = 0 ] && exit; echo pid$RANK=$$.; kill -STOP $$; echo resumed"});
  launch.wait_for("continues it\n");
  const pid_t rank_1 = launch.number_after("pid1");
  CHECK_THAT(launch.output(),
             contains(fmt::format("launch: rank 1 is stopped by SIGSTOP, and no other rank of this node "
                                  "goes on: kill -CONT {} continues it\n",
                                  rank_1)));
  kill(rank_1, SIGCONT);
  CHECK(launch.wait_for_end() == 0);
  CHECK_THAT(launch.output(), contains("resumed"));
}

TEST_CASE("ranks that do not act on SIGTERM end with it by default") {
  LaunchProcess launch({"--nproc_per_node=2", "sh", "-c", "echo pid$RANK=$$.; exec sleep 1000"});
  launch.wait_for(".\n", 2);
  kill(launch.pid(), SIGTERM);
  CHECK(launch.wait_for_end() == 128 + SIGTERM);
}

TEST_CASE("ranks that ignore a passed-on SIGTERM are killed after the shutdown timeout") {
  LaunchProcess launch({"--nproc_per_node=2", "--shutdown_timeout=0.3", "sh", "-c",
                        "trap '' TERM; echo pid$RANK=$$.; while :; do sleep 1000; done"});
  launch.wait_for(".\n", 2);
  kill(launch.pid(), SIGTERM);
  CHECK(launch.wait_for_end() == 128 + SIGKILL);
  CHECK(wait_until_gone(launch.number_after("pid0")));
}

TEST_CASE("a signal ends launch where /proc is that of another PID namespace, and names no process of it") {
  if (std::system("unshare --pid --fork true 2>/dev/null") != 0)
    return tests::skip("this machine allows no PID namespaces");
  const auto inside = [](const std::string& script) -> std::vector<std::string> {
    return {"/usr/bin/unshare", "--pid", "--fork", "--kill-child", LAUNCH_PROGRAM, "sh", "-c", script};
  };
  tests::Program good(inside("true"));
  CHECK(good.wait_for_end() == 0);
  CHECK_THAT(good.output(), !contains("behind"));
  tests::Program outer(inside("echo ready.; exec sleep 1000"));
  outer.wait_for("ready.\n");
  kill(tests::child_named(outer.pid(), "launch"), SIGTERM);
  CHECK(outer.wait_for_end() == 128 + SIGTERM);
  CHECK(tests::count_of(outer.output(), "unshare --mount-proc") == 1);
}

TEST_CASE("what launch may not kill is named, and keeps it no longer than the shutdown timeout") {
  if (geteuid() != 0) return tests::skip("needs root");
  const tests::TemporaryFolder folder;
  const auto as_root = folder.path() / "setpriv";
  std::filesystem::copy("/usr/bin/setpriv", as_root);
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
  std::filesystem::permissions(as_root, std::filesystem::perms(04755));
  const std::string script = fmt::format(
      "{} --reuid=0 sh -c 'echo root=$$.; exec sleep 1000 >/dev/null 2>&1' & wait", as_root.string());
  tests::Program launch({"/usr/bin/setpriv", "--reuid=65534", "--clear-groups", LAUNCH_PROGRAM,
                         "--shutdown_timeout=0.3", "sh", "-c", script});
  launch.wait_for(".\n");
  const pid_t of_root = launch.number_after("root");
  kill(launch.pid(), SIGTERM);
  CHECK(launch.wait_for_end() == 128 + SIGTERM);
  CHECK_THAT(launch.output(),
             contains(fmt::format("left sleep (pid {}) behind, which launch cannot kill", of_root)));
  kill(of_root, SIGKILL);
}

TEST_CASE("^C again kills at once") {
  LaunchProcess launch(
      {"--nproc_per_node=2", "sh", "-c", "trap '' INT; echo pid$RANK=$$.; while :; do sleep 1000; done"});
  launch.wait_for(".\n", 2);
  const pid_t rank_0 = launch.number_after("pid0");
  do kill(launch.pid(), SIGINT);
  while (!wait_until_gone(rank_0, Seconds(0.01)));
  CHECK(launch.wait_for_end() == 128 + SIGKILL);
  CHECK(launch.age() < Seconds(15));  // the shutdown timeout is 30 s
}

TEST_CASE("only the signals that were asked for are handled") {
  LaunchProcess launch({"--nproc_per_node=2", "--signals_to_handle=SIGUSR2", "sh", "-c",
                        "trap 'exit 7' USR2; sleep 1000 & echo pid$RANK=$$.; wait"});
  launch.wait_for(".\n", 2);
  kill(launch.pid(), SIGUSR2);
  CHECK(launch.wait_for_end() == 7);
}

}  // namespace
}  // namespace lockstep::launcher
