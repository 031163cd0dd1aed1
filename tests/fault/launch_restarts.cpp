// --max_restarts: after a failure all ranks of a node are started again.
#include <csignal>
#include <filesystem>

#include "tests/fault/launch_process.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::launcher {
namespace {

using tests::contains;

/// Two ranks of a shell script that tells the start it is of first. Where one of them fails at once, the
/// other may be stopped before it has told anything.
std::vector<std::string> two_ranks(const std::string& restarts, const std::string& script) {
  return {"--nproc_per_node=2", "--max_restarts=" + restarts, "sh", "-c",
          "N=$TORCHELASTIC_RESTART_COUNT; echo start $N of $TORCHELASTIC_MAX_RESTARTS, rank $RANK at "
          "$MASTER_PORT.; " +
              script};
}

TEST_CASE("after a failure all ranks are started again, in the same place") {
  LaunchProcess launch(two_ranks("3", "[ $N = 2 ] && exit 0; [ $RANK = 1 ] && exit 9; exec sleep 1000"));
  CHECK(launch.wait_for_end() == 0);
  const std::string& said = launch.output();
  INFO(said);
  for (const char* start :
       {"start 0 of 3, rank 1", "start 1 of 3, rank 1", "start 2 of 3, rank 0", "start 2 of 3, rank 1"})
    CHECK(count_of(said, start) == 1);
  CHECK(count_of(said, "left with exit code 9") == 2);
  CHECK_THAT(said, contains("launch: starts all ranks of this node again, 2 of 3 times\n"));
  const auto port = said.find(" at ");
  CHECK(count_of(said, said.substr(port, said.find('\n', port) - port)) == count_of(said, "start "));
}

TEST_CASE("where no start is left the last failure gives the exit code") {
  LaunchProcess launch(two_ranks("1", "[ $RANK = 1 ] && exit $((7 + N)); exec sleep 1000"));
  CHECK(launch.wait_for_end() == 8);
  CHECK(count_of(launch.output(), "of 1, rank 1") == 2);
  CHECK(count_of(launch.output(), "starts all ranks") == 1);
}

TEST_CASE("each start has its own logs, as torchrun's attempts") {
  const tests::TemporaryFolder folder;
  std::vector<std::string> words =
      two_ranks("1", "[ $N = 1 ] && exit 0; [ $RANK = 1 ] && exit 1; exec sleep 1000");
  words.insert(words.begin(), {"--log_dir=" + folder.path().string(), "--redirects=1", "--rdzv_id=run"});
  LaunchProcess launch(words);
  CHECK(launch.wait_for_end() == 0);
  const std::filesystem::path run = *std::filesystem::directory_iterator(folder.path());
  CHECK_THAT(tests::contents(run / "attempt_0/1/stdout.log"), contains("start 0 of 1, rank 1"));
  CHECK_THAT(tests::contents(run / "attempt_1/1/stdout.log"), contains("start 1 of 1, rank 1"));
}

TEST_CASE("no start follows ranks that have saved and left, or whose words, data or numbers are wrong") {
  const auto [script, code] = GENERATE(
      table<std::string, int>({{"exit 75", 75},
                               {"[ $RANK = 0 ] && exec sleep 1000; echo '{\"message\": {\"extraInfo\": "
                                "{\"exit_code\": 6}}}' >$TORCHELASTIC_ERROR_FILE; exit 6",
                                6}}));
  LaunchProcess launch(two_ranks("3", script));
  CHECK(launch.wait_for_end() == code);
  CHECK(count_of(launch.output(), "start 0 of 3, rank 1") == 1);
  CHECK(count_of(launch.output(), "start 1") == 0);
}

TEST_CASE("no start follows when launch was told to stop, also by a signal of which ranks need not end") {
  const int signal_number = GENERATE(SIGTERM, SIGUSR1, SIGXCPU);
  LaunchProcess launch(two_ranks("3", "ulimit -c 0; exec sleep 1000"));
  launch.wait_for("start 0", 2);
  ::kill(launch.pid(), signal_number);
  CHECK(launch.wait_for_end() == 128 + signal_number);
  CHECK(count_of(launch.output(), "start 1") == 0);
}

TEST_CASE("no start follows when a stop is asked for while the ranks end after a failure") {
  LaunchProcess launch(two_ranks("3",
                                 "F=${TORCHELASTIC_ERROR_FILE%/*/*}/ready; "
                                 "[ $RANK = 1 ] && { until [ -e $F ]; do sleep 0.01; done; exit 9; }; "
                                 "trap 'echo ending.' TERM; trap 'exit 1' USR1; touch $F; "
                                 "while :; do sleep 0.01; done"));
  launch.wait_for("ending.\n");
  ::kill(launch.pid(), SIGUSR1);
  CHECK(launch.wait_for_end() == 9);
  CHECK(count_of(launch.output(), "start 1") == 0);
}

}  // namespace
}  // namespace lockstep::launcher
