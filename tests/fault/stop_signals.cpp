#include "tests/fault/stop_runs.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

Words started_by(const Words& starter, int ranks, const fs::path& run_dir) {
  const Words trainer = endless_training(run_dir);
  return starter + (ranks == 1 ? trainer : launched(ranks, trainer, {"--shutdown_timeout=5"}));
}

TEST_CASE("SIGHUP, SIGQUIT and SIGXCPU save and leave with 75, under launch and without it") {
  const int signal_number = GENERATE(SIGHUP, SIGQUIT, SIGXCPU);
  const int ranks = GENERATE(1, 2);
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  Program run(started_by({"/usr/bin/env"}, ranks, run_dir));
  wait_for_steps(run_dir);
  ::kill(run.pid(), signal_number);
  CHECK(run.wait_for_end() == 75);
  CHECK(has_checkpoint(run_dir));
}

TEST_CASE("a run that has used its time of the processor saves and leaves with 75") {
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  const std::string seconds = std::to_string(static_cast<int>(slowness));
  Program run(
      started_by({"/bin/sh", "-c", "ulimit -S -t " + seconds + " && exec \"$0\" \"$@\""}, 1, run_dir));
  CHECK(run.wait_for_end() == 75);
  CHECK(has_checkpoint(run_dir));
}

/// Sent to the process, and read by it or thrown away.
void send_and_wait_until_taken(pid_t pid, int signal_number) {
  ::kill(pid, signal_number);
  wait_until_seen([&] { return !pends(pid, signal_number); });
}

TEST_CASE("a signal that was ignored at the start stays ignored: nohup, a shell's background job") {
  struct Case {
    Words starter;
    std::vector<int> ignored;
  };
  const Case given =
      GENERATE(Case{{"/usr/bin/nohup"}, {SIGHUP}},
               Case{{"/bin/sh", "-c", "trap '' INT QUIT; exec \"$0\" \"$@\""}, {SIGINT, SIGQUIT}});
  const int ranks = GENERATE(1, 2);
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  Program run(started_by(given.starter, ranks, run_dir));
  wait_for_steps(run_dir);
  for (const int signal_number : given.ignored) send_and_wait_until_taken(run.pid(), signal_number);
  wait_for_steps(run_dir, logged_step(run_dir) + 20);
  ::kill(run.pid(), SIGTERM);
  CHECK(run.wait_for_end() == 75);
  CHECK(fs::exists(run_dir / "summary.json"));
}

/// Two ranks in a shell each, which tells its pid, and the trainer's code at the end. launch sees none fail.
Words told_by_shells(const fs::path& run_dir) {
  return launched(2, in_script("/bin/sh", "echo pid$RANK=$$.; \"$0\" \"$@\"; echo code$RANK=$?.",
                               endless_training(run_dir)));
}

TEST_CASE("a second SIGTERM, from a service manager and a launcher, does not keep a trainer from saving") {
  const int first = GENERATE(SIGTERM, SIGHUP, SIGINT);
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  Program run(told_by_shells(run_dir));
  run.wait_for(".\n", 2);
  wait_for_steps(run_dir);
  // Rank 0 waits for rank 1, so that it has taken both before it acts on the first.
  const pid_t other = child_named(run.number_after("pid1"), "trainer");
  const pid_t signalled = child_named(run.number_after("pid0"), "trainer");
  stop(other);
  for (const int signal_number : {first, SIGTERM}) send_and_wait_until_taken(signalled, signal_number);
  ::kill(other, SIGCONT);
  run.wait_for_end();
  for (const char* code : {"code0", "code1"}) CHECK(run.number_after(code) == 75);
  CHECK(has_checkpoint(run_dir));
}

TEST_CASE("SIGTERM to a rank that has lost its peer: it leaves with 5, and nothing is saved") {
  const bool is_asked_before = GENERATE(false, true);
  CAPTURE(is_asked_before);
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  Program run(told_by_shells(run_dir));
  run.wait_for(".\n", 2);
  wait_for_steps(run_dir);
  const pid_t lost = child_named(run.number_after("pid1"), "trainer");
  const pid_t survivor = child_named(run.number_after("pid0"), "trainer");
  if (is_asked_before) {
    stop(lost);
    send_and_wait_until_taken(survivor, SIGTERM);
  }
  ::kill(lost, SIGKILL);
  if (!is_asked_before) ::kill(survivor, SIGTERM);
  run.wait_for_end();
  CHECK(run.number_after("code0") == 5);
  CHECK(run.number_after("code1") == 128 + SIGKILL);
  CHECK_FALSE(has_checkpoint(run_dir));
}

TEST_CASE("a reader that goes away ends a trainer as a terminal does: 75, saved") {
  const int ranks = GENERATE(1, 2);
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  Program run(in_script("/bin/bash", "\"$0\" \"$@\" | head -n 3; echo code=${PIPESTATUS[0]}.",
                        started_by({"/usr/bin/env"}, ranks, run_dir)));
  run.wait_for_end();
  CHECK(run.number_after("code") == 75);
  CHECK(has_checkpoint(run_dir));
}

}  // namespace
}  // namespace lockstep::tests
