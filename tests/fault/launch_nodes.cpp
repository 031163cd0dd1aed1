#include <csignal>

#include "tests/fault/launch_process.h"
#include "tests/support/catch.h"

namespace lockstep::launcher {
namespace {

using tests::contains;

/// One of two nodes with two ranks each.
std::vector<std::string> node(int rank, const std::vector<std::string>& command) {
  std::vector<std::string> words{"--nnodes=2", "--node_rank=" + std::to_string(rank), "--nproc_per_node=2",
                                 "--master_addr=127.0.0.1", "--master_port=4568"};
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

TEST_CASE("two launches are two nodes of one run") {
  const std::vector<std::string> script{
      "sh", "-c",
      "echo rank $RANK of $WORLD_SIZE, local $LOCAL_RANK of $LOCAL_WORLD_SIZE, node $GROUP_RANK of "
      "$GROUP_WORLD_SIZE, at $MASTER_ADDR:$MASTER_PORT, run $TORCHELASTIC_RUN_ID, token $LOCKSTEP_TOKEN."};
  LaunchProcess first(node(0, script));
  LaunchProcess second(node(1, script));
  CHECK(first.wait_for_end() == 0);
  CHECK(second.wait_for_end() == 0);
  const std::string rest = " at 127.0.0.1:4568, run none, token .\n";
  CHECK_THAT(first.output(), contains("node 0 of 2, ranks 0-1 of 4: 2 ranks on "));
  CHECK_THAT(first.output(), contains("rank 0 of 4, local 0 of 2, node 0 of 2," + rest));
  CHECK_THAT(first.output(), contains("rank 1 of 4, local 1 of 2, node 0 of 2," + rest));
  CHECK_THAT(second.output(), contains("rank 2 of 4, local 0 of 2, node 1 of 2," + rest));
  CHECK_THAT(second.output(), contains("rank 3 of 4, local 1 of 2, node 1 of 2," + rest));
}

TEST_CASE("the report of a node counts over all nodes") {
  LaunchProcess second(node(1, {"sh", "-c", "[ $RANK = 3 ] && exit 9; sleep 1000"}));
  CHECK(second.wait_for_end() == 9);
  CHECK_THAT(second.output(), contains("launch: rank 3 (pid ") && contains("[local rank 1, host "));
  CHECK_THAT(second.output(), contains("then rank 2 was killed by SIGTERM"));
}

TEST_CASE("the ranks of one node share a secret of their own, another run another one") {
  const auto token = [] {
    LaunchProcess launch({"--nproc_per_node=2", "sh", "-c", "echo token $LOCKSTEP_TOKEN."});
    REQUIRE(launch.wait_for_end() == 0);
    const std::string& text = launch.output();
    const std::string first = text.substr(text.find("token "), 39);
    CHECK(first.back() == '.');  // 32 digits before it
    CHECK(text.find("token ") != text.rfind("token "));
    CHECK(text.substr(text.rfind("token "), 39) == first);
    return first;
  };
  CHECK(token() != token());
}

}  // namespace
}  // namespace lockstep::launcher
