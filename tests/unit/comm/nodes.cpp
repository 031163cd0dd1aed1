#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include <unistd.h>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "tests/support/catch.h"
#include "tests/support/slowness.h"
#include "tests/unit/comm/nodes.h"
#include "tests/unit/comm/reference.h"

using namespace lockstep;
using namespace lockstep::comm;
using namespace lockstep::comm::testing;
using lockstep::tests::contains;

TEST_CASE("ranks on several nodes do all collectives", "[comm]") {
  const auto nodes = GENERATE(std::vector{0, 1}, std::vector{0, 0, 1, 1}, std::vector{0, 1, 0, 2, 1});
  CAPTURE(nodes);
  const int size = static_cast<int>(nodes.size());
  const auto errors = run_nodes(nodes, Seconds(10 * tests::slowness), [&](Communicator& group) {
    const int rank = group.world().rank;
    const auto arena = group.allocate_arena(DType::f32, 16384);
    const auto values = values_of<float>(*arena);
    for (std::size_t i = 0; i < 10000; ++i) values[i] = element<float>(rank, i);
    NoStream stream;
    group.all_reduce({arena.get(), 0, 10000}, {.bucket = 0, .what = "fc1.weight"}, stream);
    for (std::size_t i = 0; i < 10000; ++i) {
      const auto expected = reference<float>(0, size, i);
      if (std::memcmp(&values[i], &expected, sizeof(float)) != 0) throw std::runtime_error("sum");
    }
    double sums[] = {1.0, static_cast<double>(rank)};
    group.all_reduce_sum(sums);
    if (sums[0] != size || sums[1] != size * (size - 1) / 2) throw std::runtime_error("all_reduce_sum");
    std::vector<std::byte> blob(9 << 20, rank == 1 ? std::byte{7} : std::byte{0});
    group.broadcast(blob, 1);
    if (blob.back() != std::byte{7}) throw std::runtime_error("broadcast");
    const auto texts = group.all_gather(std::string(static_cast<std::size_t>(rank), 'x'));
    for (int other = 0; other < size; ++other) {
      if (texts[static_cast<std::size_t>(other)].size() != static_cast<std::size_t>(other)) {
        throw std::runtime_error("all_gather");
      }
    }
    group.barrier();
  });
  CHECK(errors == std::vector<std::string>(nodes.size()));
}

TEST_CASE("nodes that count different ranks are told so, all of them at once", "[comm]") {
  const std::string run_id = fresh_run_id();
  const int port = unused_port();
  const auto errors = run_threads(2, [&](int rank) {
    World world = local_world(0, 1, run_id);
    world.rank = world.node_rank = rank;
    world.size = world.node_count = rank == 0 ? 2 : 3;
    world.master_port = port;
    CommOptions options;
    options.insecure = true;
    options.timeout = Seconds(10 * tests::slowness);
    make_communicator(world, options);
  });
  const auto told = contains("rank 1 counts 3 ranks, rank 0 counts 2: start all nodes with");
  CHECK_THAT(errors[0], told);
  CHECK_THAT(errors[1], told);
}

TEST_CASE("ranks that call different things are told so", "[comm]") {
  const auto errors = run_nodes({0, 1}, Seconds(10), [&](Communicator& group) {
    if (group.world().rank == 0) {
      group.barrier();
    } else {
      group.all_gather("");
    }
  });
  CHECK_THAT(errors[0] + errors[1], contains("made another call than"));
}

TEST_CASE("texts that all ranks have read leave the store", "[comm]") {
  const std::string run_id = fresh_run_id();
  const int port = unused_port();
  bool first_is_there = true;
  bool last_is_there = false;
  const auto errors = run_threads(2, [&](int rank) {
    const auto group = join_nodes(rank, {0, 1}, run_id, port, Seconds(10));
    for (int call = 0; call < 20; ++call) group->all_gather("text");
    if (rank == 0) {
      StoreClient store = connect_to_store(run_id, port);
      const auto is_there = [&](int call) {
        return store.wait_for(fmt::format("gather/{}/0", call), Deadline::in(Seconds(0))).has_value();
      };
      for (int call = 1; call < 100; ++call) last_is_there = last_is_there || is_there(call);
      first_is_there = is_there(1);
    }
    group->barrier();
  });
  CHECK(errors == std::vector<std::string>(2));
  CHECK_FALSE(first_is_there);
  CHECK(last_is_there);  // or keys have other names
}

TEST_CASE("nodes whose ranges differ are told so", "[comm]") {
  const auto errors = run_nodes({0, 1}, Seconds(10), [&](Communicator& group) {
    const auto arena = group.allocate_arena(DType::f32, 1000);
    NoStream stream;
    const std::int64_t first = group.world().rank * 16;
    group.all_reduce({arena.get(), first, 500}, {}, stream);
  });
  CHECK_THAT(errors[0], contains("sends what does not belong to all-reduce 2: all ranks must make the same"));
}

TEST_CASE("a rank of another node that stops or dies is named by all, in time", "[comm]") {
  const bool dies = GENERATE(true, false);
  const std::vector<int> nodes{0, 0, 1, 1};
  const std::string run_id = fresh_run_id();
  const int port = unused_port();
  const auto rank = [&](int index) {
    return RankProcess([=] {
      const auto group = join_nodes(index, nodes, run_id, port, Seconds(2));
      const auto arena = group->allocate_arena(DType::f32, 1024);
      NoStream stream;
      try {
        group->barrier();  // a rank may still be in it when the last one dies
        if (index == 3) raise(dies ? SIGKILL : SIGSTOP);
        group->all_reduce(all_of(*arena), {.bucket = 0, .what = "fc1.weight"}, stream);
      } catch (const CommError&) {
        throw std::runtime_error(group->failure_report()->text());
      }
    });
  };
  std::vector<RankProcess> ranks;
  for (int index = 0; index < 4; ++index) ranks.push_back(rank(index));
  const auto start = Clock::now();
  for (std::size_t survivor = 0; survivor < 3; ++survivor) {
    const std::string report = ranks[survivor].outcome();
    CAPTURE(survivor, report);
    // Whoever noticed first may have waited for a rank that waited for rank 3.
    CHECK_THAT(report, contains("the run failed: rank 3 does not answer; "));
    CHECK_THAT(report, contains(fmt::format("rank 3 (pid {} on ", ranks[3].pid())) &&
                           contains("no answer; last seen "));
    CHECK_THAT(report, contains("rank 0 (pid ") && contains("): in "));
  }
  // Beside the timeout of 2 s: a second for the death to be noticed, one for the report.
  CHECK(Clock::now() - start < Seconds(4 * tests::slowness));
}

TEST_CASE("a rank that hangs in its own work is named alone, whoever waits for those that wait for it",
          "[comm]") {
  struct Case {
    std::vector<int> nodes;
    std::int64_t elements;
  };
  constexpr int hanging = 3;
  const Case cases[]{
      {{0, 1, 2, 3}, 1024},  // each rank lacks chunks of all others, which lack those of rank 3
      {{0, 0, 1, 1}, 1024},  // rank 2 waits for its neighbour, and ranks 0 and 1 for it
      {{0, 0, 1, 1}, 1},     // who has no shard waits for its neighbour, which waits for the other node
  };
  for (const auto& [nodes, elements] : cases) {
    CAPTURE(nodes, elements);
    // A status, which comes once a second, must tell meanwhile who is in the all-reduce.
    const auto errors = run_nodes(nodes, Seconds(3), [&, count = elements](Communicator& group) {
      const auto arena = group.allocate_arena(DType::f32, 1024);
      NoStream stream;
      group.barrier();
      if (group.world().rank == hanging) {
        while (!group.failed()) std::this_thread::sleep_for(std::chrono::milliseconds(5));  // the work
        return;
      }
      group.all_reduce({arena.get(), 0, count}, {.bucket = 0, .what = "fc1.weight"}, stream);
    });
    for (int rank = 0; rank < hanging; ++rank) {
      CHECK_THAT(errors[static_cast<std::size_t>(rank)],
                 Catch::Matchers::StartsWith("rank 3 ") &&
                     contains(" all-reduce 3 (bucket 0, fc1.weight) within 3 s"));
    }
  }
}

TEST_CASE("ranks leave in time when the store's process stops while they wait for each other's end",
          "[comm]") {
  const std::vector<int> nodes{0, 1, 2, 3, 4, 5, 6, 7};
  const std::string run_id = fresh_run_id();
  const int port = unused_port();
  const auto rank = [&](int index) {
    return RankProcess([=] {
      auto group = join_nodes(index, nodes, run_id, port, Seconds(2));
      group->barrier();
      if (index == 0) {
        StoreClient store = connect_to_store(run_id, port);
        for (std::size_t other = 1; other < nodes.size(); ++other)
          store.wait(fmt::format("left/{}", other), Deadline::in(Seconds(10)));
        raise(SIGSTOP);
      }
      const auto start = Clock::now();
      group.reset();
      // The time-out of 2 s, and a second for the store's answer: not one for each rank.
      const Seconds time = Clock::now() - start;
      if (time > Seconds(6 * tests::slowness))
        throw std::runtime_error(fmt::format("it took {} s to leave", time.count()));
    });
  };
  std::vector<RankProcess> ranks;
  for (int index = 0; index < static_cast<int>(nodes.size()); ++index) ranks.push_back(rank(index));
  for (std::size_t index = 1; index < nodes.size(); ++index) CHECK(ranks[index].outcome().empty());
}

TEST_CASE("ranks that wait for each other's end leave when one of them is killed", "[comm]") {
  const std::vector<int> nodes{0, 1, 2};
  const std::string run_id = fresh_run_id();
  const int port = unused_port();
  const auto rank = [&](int index) {
    return RankProcess([=] {
      auto group = join_nodes(index, nodes, run_id, port, Seconds(20));
      group->barrier();
      if (index == 1) {
        StoreClient store = connect_to_store(run_id, port);
        for (const int other : {0, 2}) store.wait(fmt::format("left/{}", other), Deadline::in(Seconds(10)));
        raise(SIGKILL);
      }
      const auto start = Clock::now();
      group.reset();
      const Seconds time = Clock::now() - start;
      if (time > Seconds(5 * tests::slowness))
        throw std::runtime_error(fmt::format("it took {} s to leave", time.count()));
    });
  };
  std::vector<RankProcess> ranks;
  for (int index = 0; index < 3; ++index) ranks.push_back(rank(index));
  for (const std::size_t index : {0, 2}) CHECK(ranks[index].outcome().empty());
}
