// Many of everything on one small machine: connections to a store, all at once; ranks of a node; nodes.
#include <sys/resource.h>

#include <fmt/format.h>

#include "comm/store/client.h"
#include "comm/store/server.h"
#include "tests/fault/resume_runs.h"
#include "tests/unit/comm/ranks.h"

namespace lockstep::tests {
namespace {

using comm::StoreClient;

constexpr Seconds most_to_meet(120 * slowness);

/// A thread for each client, all of which connect at once and wait for the last one. The listener keeps 128
/// connections of one network that have not shown the key yet: the others try again.
void check_store(int clients) {
  CAPTURE(clients);
  const comm::Credentials credentials{.run_id = comm::testing::fresh_run_id(),
                                      .secret = std::string(64, 's')};
  rlimit open_files{};
  ::getrlimit(RLIMIT_NOFILE, &open_files);
  open_files.rlim_cur = open_files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &open_files);
  const Deadline deadline = Deadline::in(most_to_meet);
  std::atomic<int> lost = 0;
  comm::StoreServer server("127.0.0.1", {0}, credentials);
  server.on_lost([&](const std::string&, const std::string&) { ++lost; });
  const auto errors = comm::testing::run_threads(clients, [&](int rank) {
    StoreClient store = StoreClient::connect("127.0.0.1", {server.port()}, credentials, deadline);
    const std::string name = fmt::format("rank/{}", rank);
    if (store.claim(name, name, deadline)) throw std::logic_error(name + " is claimed by another");
    if (store.add("joined", 1, deadline) == clients) store.set("all", "here", deadline);
    store.wait("all", deadline);
    const std::string other = fmt::format("rank/{}", (rank + 1) % clients);
    if (store.get(other, deadline) != other) throw std::logic_error(other + " is not there");
    // Else a claim goes with its connection before another has looked.
    if (store.add("left", 1, deadline) == clients) store.set("none", "waits", deadline);
    store.wait("none", deadline);
    store.say_goodbye(deadline);
  });
  CHECK(errors == std::vector<std::string>(static_cast<std::size_t>(clients)));
  server.on_lost({});
  CHECK(lost == 0);
}

/// Of so many ranks, each on the node that the shell's `node` gives.
std::string hash_of_ranks(int ranks, const std::string& node) {
  CAPTURE(ranks, node);
  const TemporaryFolder folder;
  Program run({LAUNCH_PROGRAM,
               fmt::format("--nproc_per_node={}", ranks),
               "/bin/sh",
               "-c",
               fmt::format("export LOCKSTEP_NODE={}; exec \"$0\" \"$@\"", node),
               TRAINER_PROGRAM,
               "--model=mlp",
               "--model-args=hidden=4",
               "--image-shape=1x4x4",
               "--dataset=synthetic",
               "--samples=1024",
               "--batch-size=1",
               "--max-steps=3",
               "--checkpoint-every=2",
               "--eval-every=0",
               "--threads=1",
               "--num-workers=0",
               "--progress=none",
               "--timeout=60",
               "--run-dir=" + (folder / "run").string()});
  const int code = run.wait_for_end(most_to_meet);
  INFO(run.output());
  REQUIRE(code == 0);
  const auto summary = nlohmann::json::parse(contents(folder / "run/summary.json"));
  CHECK(summary["world_size"] == ranks);
  CHECK(summary["steps"] == 3);
  return summary["weights_sha256"];
}

TEST_CASE("100 connections to one store, and 16 ranks on a node each, at once") {
  check_store(100);
  CHECK(hash_of_ranks(16, "$RANK") == hash_of_ranks(16, "one"));
}

TEST_CASE("1,000 connections to one store at once", "[.matrix]") {
  check_store(1000);
}

TEST_CASE("256 ranks on one machine, as one node and as 4, and 64 nodes that start at once", "[.matrix]") {
  CHECK(hash_of_ranks(256, "one") == hash_of_ranks(256, "$((RANK/64))"));
  CHECK(hash_of_ranks(64, "one") == hash_of_ranks(64, "$RANK"));
}

}  // namespace
}  // namespace lockstep::tests
