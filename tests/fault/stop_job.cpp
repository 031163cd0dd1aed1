#include <fmt/format.h>
#include <stdlib.h>

#include <sstream>
#include <thread>

#include "launcher/environment.h"
#include "tests/fault/stop_runs.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

constexpr Seconds timeout(1);
const std::string control_z = "\x1a";
const std::string control_c = "\x03";

/// A shell with job control on a terminal of its own: runs `words` in the foreground, goes on in it after ^Z
/// and a typed line, and tells what the job ended with.
Words job_shell(const Words& words) {
  return Words{"/usr/bin/setsid", "--ctty", "bash", "-c",
               "set -m; \"$0\" \"$@\"; echo stopped=$?.; read; fg; echo code=$?."} +
         words;
}

Words run_of(int ranks, const std::string& script, const fs::path& run_dir, const Words& more) {
  const Words trainer = endless_training(run_dir, Words{"--timeout=1"} + more);
  return launched(ranks, in_script("bash", "echo pid$RANK=$$.; " + script, trainer));
}

/// A process and what it started: a wrapper may stop before its trainer does.
bool wait_until_all_stopped(pid_t pid) {
  if (!wait_until_stopped(pid)) return false;
  std::istringstream children(contents(fmt::format("/proc/{0}/task/{0}/children", pid)));
  for (pid_t child = 0; children >> child;) {
    if (!wait_until_all_stopped(child)) return false;
  }
  return true;
}

/// Well beyond the trainers' own time-out: what passes here is the subject, not a wait for an event.
void stay_away() {
  std::this_thread::sleep_for(timeout * 2.5);
}

TEST_CASE("^Z stops the whole job; fg continues it, and no wait of its has timed out meanwhile") {
  const int ranks = GENERATE(1, 2);
  const std::string script = GENERATE("exec \"$0\" \"$@\"", "\"$0\" \"$@\"; true");
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  Program shell(job_shell(run_of(ranks, script, run_dir, {})), Program::Console::terminal);
  shell.wait_for(".\r\n", ranks);
  wait_for_steps(run_dir);
  shell.type(control_z);
  shell.wait_for("stopped=148.");
  for (int rank = 0; rank < ranks; ++rank) {
    CHECK(wait_until_all_stopped(shell.number_after("pid" + std::to_string(rank))));
  }
  const std::int64_t stopped_at = logged_step(run_dir);
  stay_away();
  CHECK(logged_step(run_dir) == stopped_at);
  shell.type("\n");
  wait_for_steps(run_dir, stopped_at + 20);
  shell.type(control_c);
  shell.wait_for_end();
  INFO(shell.output());
  CHECK(shell.number_after("code") == 75);
  CHECK(has_checkpoint(run_dir));
}

TEST_CASE("a job that is stopped and continued ends well by itself") {
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  Program shell(job_shell(run_of(2, "exec \"$0\" \"$@\"", run_dir, {"--max-steps=3000"})),
                Program::Console::terminal);
  wait_for_steps(run_dir);
  shell.type(control_z);
  shell.wait_for("stopped=148.");
  stay_away();
  shell.type("\n");
  shell.wait_for_end();
  INFO(shell.output());
  CHECK(shell.number_after("code") == 0);
}

TEST_CASE("SIGTERM to a stopped job: it saves when it is continued") {
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  Program shell(job_shell(run_of(2, "exec \"$0\" \"$@\"", run_dir, {})), Program::Console::terminal);
  wait_for_steps(run_dir);
  shell.type(control_z);
  shell.wait_for("stopped=148.");
  const pid_t launch = parent_of(shell.number_after("pid0"));
  ::kill(launch, SIGTERM);
  shell.type("\n");
  shell.wait_for_end();
  CHECK(shell.number_after("code") == 75);
  CHECK(has_checkpoint(run_dir));
}

TEST_CASE("^Z of one node of two: the other ends with 5, and the stopped one when it is continued") {
  const TemporaryFolder folder;
  const std::string port = std::to_string(launcher::free_port("127.0.0.1"));
  ::setenv("LOCKSTEP_TOKEN", "the secret of these two nodes", 1);
  const auto node = [&](const std::string& rank) {
    return launched(
        1, endless_training(folder / rank, {"--timeout=1"}),
        {"--nnodes=2", "--node_rank=" + rank, "--master_addr=127.0.0.1", "--master_port=" + port});
  };
  Program stopped(job_shell(node("0")), Program::Console::terminal);
  Program other(node("1"));
  wait_for_steps(folder / "0");
  stopped.type(control_z);
  stopped.wait_for("stopped=148.");
  CHECK(other.wait_for_end() == 5);
  stopped.type("\n");
  stopped.wait_for_end();
  INFO(stopped.output());
  CHECK(stopped.number_after("code") == 5);
}

TEST_CASE("SIGTSTP and SIGCONT in quick succession leave nothing stopped") {
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  Program run(launched(2, endless_training(run_dir)));
  wait_for_steps(run_dir);
  for (int i = 0; i < 200; ++i) {
    ::kill(run.pid(), SIGTSTP);
    ::kill(run.pid(), SIGCONT);
  }
  wait_for_steps(run_dir, logged_step(run_dir) + 20);
  ::kill(run.pid(), SIGTERM);
  CHECK(run.wait_for_end() == 75);
}

TEST_CASE("a terminal that stops background output (stty tostop) does not stop a rank") {
  const TemporaryFolder folder;
  Program shell(
      Words{"/usr/bin/setsid", "--ctty", "bash", "-c", "set -m; stty tostop; \"$0\" \"$@\"; echo code=$?."} +
          launched(1, {"echo", "hello"}),
      Program::Console::terminal);
  shell.wait_for_end();
  CHECK(shell.number_after("code") == 0);
  CHECK_THAT(shell.output(), contains("hello"));
}

}  // namespace
}  // namespace lockstep::tests
