#include "tests/fault/stop_runs.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

/// Ends a run by a signal to launch and expects what README promises: 75, and a checkpoint to go on from.
void check_saves_on(int signal, const Words& words, const fs::path& run_dir) {
  Program run(words);
  wait_for_steps(run_dir);
  ::kill(run.pid(), signal);
  CHECK(run.wait_for_end() == 75);
  INFO(run.output());
  CHECK(has_checkpoint(run_dir));
  CHECK_THAT(run.output(), contains("launch: stopped") && contains(" (exit code 75)"));
  if (signal == SIGTERM) CHECK_THAT(run.output(), contains("by SIGTERM (exit"));
}

void check_saves_on_sigterm(const Words& words, const fs::path& run_dir) {
  check_saves_on(SIGTERM, words, run_dir);
}

TEST_CASE("a wrapper script that dies of SIGTERM does not take the trainer along: 75, saved") {
  const int ranks = GENERATE(1, 2);
  const std::string shell = GENERATE("bash", "sh");
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  check_saves_on_sigterm(launched(ranks, in_script(shell, "\"$0\" \"$@\"; true", endless_training(run_dir))),
                         run_dir);
}

TEST_CASE("a wrapper script that a batch system's warning ends does not take the trainer along: 75, saved") {
  const int signal = GENERATE(SIGUSR1, SIGXCPU);
  const int ranks = GENERATE(1, 2);
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  check_saves_on(signal, launched(ranks, in_script("bash", "\"$0\" \"$@\"; true", endless_training(run_dir))),
                 run_dir);
}

TEST_CASE("a wrapper script's trap hides the trainer's exit code: 75, saved, all the same") {
  const int signal = GENERATE(SIGTERM, SIGUSR1);
  const std::string script =
      GENERATE("trap 'kill -TERM $c; wait $c' TERM USR1; \"$0\" \"$@\" & c=$!; wait $c",
               "trap 'kill -TERM $c; wait $c; trap - TERM; kill -TERM $$' TERM USR1; \"$0\" \"$@\" & c=$!; "
               "wait $c",
               "trap 'exit 0' TERM USR1; \"$0\" \"$@\" & wait",
               "trap 'kill -TERM $c; wait $c; exit 0' TERM USR1; \"$0\" \"$@\" & c=$!; wait $c");
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  check_saves_on(signal, launched(2, in_script("bash", script, endless_training(run_dir))), run_dir);
}

TEST_CASE("a wrapper that fails behind a trainer that saved has failed") {
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  Program run(launched(2, in_script("bash", "trap : TERM; \"$0\" \"$@\" & c=$!; wait $c; wait $c; exit 9",
                                    endless_training(run_dir))));
  wait_for_steps(run_dir);
  ::kill(run.pid(), SIGTERM);
  CHECK(run.wait_for_end() == 9);
  CHECK(has_checkpoint(run_dir));
}

TEST_CASE(
    "a wrapper whose trap says that all is well, over a program that fails or does not end: a failure") {
  const auto ending = [](const std::string& program) {
    Program run(launched(1, in_script("bash", "trap 'exit 0' TERM; bash -c '" + program + "' & wait", {}),
                         {"--shutdown_timeout=0.3"}));
    run.wait_for("ready.\n");
    ::kill(run.pid(), SIGTERM);
    return run.wait_for_end();
  };
  CHECK(ending("trap \"sleep 0.2; exit 9\" TERM; echo ready.; while :; do sleep 0.01; done") == 9);
  CHECK(ending("trap : TERM; echo ready.; while :; do sleep 0.01; done") == 128 + SIGKILL);
  CHECK(ending("echo ready.; sleep 1000") == 0);  // as the script says, of what the signal ended
}

TEST_CASE("what a wrapper that such a warning ended has started gets the shutdown timeout, no more") {
  Program run(launched(
      1, in_script("bash", "bash -c 'trap \"\" USR1; echo pid=$$.; while :; do sleep 1000; done'; true", {}),
      {"--shutdown_timeout=0.3"}));
  run.wait_for(".\n");
  ::kill(run.pid(), SIGUSR1);
  CHECK(run.wait_for_end() == 128 + SIGKILL);
  CHECK(wait_until_gone(run.number_after("pid")));
}

TEST_CASE("wrappers inside wrappers, and one that leaves the session") {
  const std::string script =
      GENERATE("bash -c '\"$0\" \"$@\"; true' \"$0\" \"$@\"; true", "setsid \"$0\" \"$@\"; true");
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  check_saves_on_sigterm(launched(2, in_script("bash", script, endless_training(run_dir))), run_dir);
}

TEST_CASE("a wrapper pipes the text into a program which SIGTERM ends: the run is saved, 75") {
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  const std::string script = "\"$0\" \"$@\" 2>&1 | tee " + (folder / "text$RANK").string() + "; true";
  check_saves_on_sigterm(launched(2, in_script("bash", script, endless_training(run_dir))), run_dir);
}

TEST_CASE("a service manager that signals every process: 75, saved") {
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  Program run(
      launched(2, in_script("bash", "echo pid$RANK=$$.; exec \"$0\" \"$@\"", endless_training(run_dir))));
  run.wait_for(".\n", 2);
  wait_for_steps(run_dir);
  for (const char* rank : {"pid0", "pid1"}) ::kill(run.number_after(rank), SIGTERM);
  ::kill(run.pid(), SIGTERM);
  CHECK(run.wait_for_end() == 75);
  CHECK(has_checkpoint(run_dir));
}

TEST_CASE("what a wrapper has started and does not end in time is killed, and that is the rank's status") {
  Program run(launched(1,
                       in_script("bash",
                                 "bash -c 'trap \"\" TERM; echo pid=$$.; "
                                 "while :; do sleep 1000; done'; true",
                                 {}),
                       {"--shutdown_timeout=0.3"}));
  run.wait_for(".\n");
  ::kill(run.pid(), SIGTERM);
  CHECK(run.wait_for_end() == 128 + SIGKILL);
  CHECK_THAT(run.output(), contains("by launch, as it did not end in time (--shutdown-timeout)"));
  CHECK(wait_until_gone(run.number_after("pid")));
}

TEST_CASE("a wrapper that forks and exits: what it left behind is named, and ended") {
  Program run(launched(2, in_script("bash", "sleep 1000 & echo pid$RANK=$!.", {})));
  CHECK(run.wait_for_end() == 0);
  for (const char* rank : {"pid0", "pid1"}) {
    CHECK(wait_until_gone(run.number_after(rank)));
    CHECK_THAT(run.output(), contains("left sleep (pid " + std::to_string(run.number_after(rank)) + ")"));
  }
}

TEST_CASE("what left the session of a rank is ended with the run") {
  Program run(launched(2,
                       in_script("bash",
                                 "setsid bash -c 'echo pid$RANK=$$.; trap \"\" TERM; "
                                 "while :; do sleep 1000; done' & "
                                 "wait",
                                 {}),
                       {"--shutdown_timeout=0.3"}));
  run.wait_for(".\n", 2);
  ::kill(run.pid(), SIGTERM);
  CHECK(run.wait_for_end() >= 128);
  for (const char* rank : {"pid0", "pid1"}) CHECK(wait_until_gone(run.number_after(rank)));
}

}  // namespace
}  // namespace lockstep::tests
