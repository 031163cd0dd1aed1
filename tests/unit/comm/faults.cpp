#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <latch>
#include <stdexcept>

#include "comm/shm/local_rendezvous.h"
#include "comm/shm/local_socket.h"
#include "kernels/base/error.h"
#include "tests/support/catch.h"
#include "tests/support/slowness.h"
#include "tests/unit/comm/ranks.h"

using namespace lockstep;
using namespace lockstep::comm;
using namespace lockstep::comm::testing;
using tests::contains;

namespace {

constexpr std::size_t large = 1 << 20;
constexpr ExchangeLabel fc1{.bucket = 0, .what = "fc1.weight"};

CommOptions timeout(double seconds) {
  return {.timeout = Seconds(seconds)};
}

/// Reduces for ever: ends by an error only.
void reduce_for_ever(Communicator& group, const Arena& arena) {
  NoStream stream;
  while (true) group.all_reduce(all_of(arena), fc1, stream);
}

/// Processes that reduce for ever, started and past their rendezvous.
std::vector<RankProcess> start_ranks(int size, std::size_t count, const CommOptions& options) {
  int met[2];
  REQUIRE(pipe(met) == 0);
  const std::string run_id = fresh_run_id();
  std::vector<RankProcess> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([=] {
      const auto group = make_communicator(local_world(rank, size, run_id), options);
      const auto arena = group->allocate_arena(DType::f32, static_cast<std::int64_t>(count));
      group->barrier();
      if (write(met[1], "x", 1) != 1) throw std::runtime_error("write");
      reduce_for_ever(*group, *arena);
    });
  }
  char byte;
  for (int rank = 0; rank < size; ++rank) REQUIRE(read(met[0], &byte, 1) == 1);
  close(met[0]);
  close(met[1]);
  return ranks;
}

Seconds since(Clock::time_point start) {
  return Clock::now() - start;
}

}  // namespace

TEST_CASE("a killed rank is named by every survivor within a second", "[comm]") {
  const int victim = GENERATE(0, 1, 2);
  const std::size_t count = GENERATE(std::size_t{16}, large);
  auto ranks = start_ranks(3, count, timeout(60));
  const std::string cause = "rank " + std::to_string(victim) + " (pid " +
                            std::to_string(ranks[static_cast<std::size_t>(victim)].pid()) +
                            ") closed its connection";
  const auto start = Clock::now();
  ranks[static_cast<std::size_t>(victim)].signal(SIGKILL);
  for (int rank = 0; rank < 3; ++rank) {
    if (rank == victim) continue;
    const std::string outcome = ranks[static_cast<std::size_t>(rank)].outcome();
    CHECK_THAT(outcome, contains(cause) && contains("all-reduce") && contains("(bucket 0, fc1.weight)"));
  }
  CHECK(since(start) < Seconds(tests::slowness));
}

TEST_CASE("a stopped rank is named after the timeout", "[comm]") {
  const int victim = GENERATE(0, 1);
  auto ranks = start_ranks(3, 16, timeout(1));
  const auto start = Clock::now();
  ranks[static_cast<std::size_t>(victim)].signal(SIGSTOP);
  for (int rank = 0; rank < 3; ++rank) {
    if (rank == victim) continue;
    CHECK_THAT(ranks[static_cast<std::size_t>(rank)].outcome(),
               contains("rank " + std::to_string(victim) + " did not reach all-reduce") &&
                   contains("(bucket 0, fc1.weight) within 1 s"));
  }
  CHECK(since(start) < Seconds(2 * tests::slowness));
}

TEST_CASE("a rank that does not join the rendezvous is named", "[comm]") {
  const std::string run_id = fresh_run_id();
  const auto start = Clock::now();
  SECTION("another than rank 0") {
    const auto errors =
        run_threads(2, [&](int rank) { make_communicator(local_world(rank, 4, run_id), timeout(0.3)); });
    CHECK(errors[0] ==
          "ranks 2, 3 did not join the rendezvous in time: was every rank started, with the same run id, by "
          "the same user and in the same network namespace?");
    CHECK(errors[1] == errors[0]);
  }
  SECTION("rank 0") {
    const auto errors =
        run_threads(1, [&](int) { make_communicator(local_world(1, 2, run_id), timeout(0.3)); });
    CHECK_THAT(errors[0],
               contains("rank 0 did not join the rendezvous in time") && contains("by the same user"));
  }
  CHECK(since(start) < Seconds(2 * tests::slowness));
}

TEST_CASE("ranks that count differently do not meet", "[comm]") {
  const std::string run_id = fresh_run_id();
  const auto errors = run_threads(
      2, [&](int rank) { make_communicator(local_world(rank, rank == 0 ? 2 : 3, run_id), timeout(5)); });
  CHECK_THAT(errors[0], contains("rank 1") && contains("counts 3 ranks on this node, rank 0 counts 2"));
  CHECK(errors[1] == errors[0]);
}

TEST_CASE("a rank that joins twice is rejected", "[comm]") {
  const std::string run_id = fresh_run_id();
  const auto errors = run_threads(3, [&](int index) {
    const int rank = index == 0 ? 0 : 1;
    const auto group = make_communicator(local_world(rank, 2, run_id), timeout(0.5));
    group->barrier();
  });
  CHECK(errors[0].empty());
  // One of the two; which one comes first is open.
  CHECK((errors[1].empty() != errors[2].empty()));
}

TEST_CASE("connections without a handshake delay no rank", "[comm]") {
  const std::string run_id = fresh_run_id();
  std::latch foreign_are_connected(1);
  const auto errors = run_threads(3, [&](int index) {
    if (index < 2) {
      if (index == 1) foreign_are_connected.wait();
      make_communicator(local_world(index, 2, run_id), timeout(5))->barrier();
      return;
    }
    const std::string name = local_socket_name(run_id, "0", 0);
    std::vector<UniqueFd> foreign;
    while (foreign.size() < 4) {
      UniqueFd socket = connect_local(name);
      if (socket) foreign.push_back(std::move(socket));
    }
    LocalMessage garbage;
    garbage.magic = 0;
    send_local(foreign[1].get(), garbage);
    LocalMessage outside;
    outside.rank = 7;
    outside.size = 2;
    send_local(foreign[2].get(), outside);
    foreign[3].reset();
    foreign_are_connected.count_down();
    LocalMessage reply;
    while (receive_local(foreign[2].get(), reply) == Arrival::nothing_yet) std::this_thread::yield();
    if (reply.type != LocalMessage::Type::refuse) throw std::runtime_error("not refused");
  });
  CHECK(errors == std::vector<std::string>(3));
}

TEST_CASE("abort wakes every rank with the first reason", "[comm]") {
  const std::string run_id = fresh_run_id();
  std::latch met(3);
  const auto errors = run_threads(3, [&](int rank) {
    const auto group = make_communicator(local_world(rank, 3, run_id), timeout(60));
    met.arrive_and_wait();
    if (rank == 2) {
      group->abort("data/images.idx is truncated");
      group->abort("a secondary failure");
    }
    group->barrier();
  });
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(errors[static_cast<std::size_t>(rank)] ==
          "rank 2: data/images.idx is truncated; rank " + std::to_string(rank) + " was in barrier 1");
  }
}

TEST_CASE("ranks may end at different times", "[comm]") {
  // The first to leave the last barrier must not spoil it for those who have not woken yet.
  for (int repeat = 0; repeat < 50; ++repeat) {
    const auto errors = run_thread_ranks(3, timeout(5), [](Communicator& group) { group.barrier(); });
    CHECK(errors == std::vector<std::string>(3));
  }
}

TEST_CASE("a rank that left is not waited for", "[comm]") {
  const auto start = Clock::now();
  const auto errors = run_thread_ranks(2, timeout(60), [](Communicator& group) {
    group.barrier();
    if (group.world().rank == 0) group.barrier();
  });
  CHECK(errors[0] == "rank 1 left the group before the end of barrier 2");
  CHECK(since(start) < Seconds(tests::slowness));
}

TEST_CASE("collectives over arenas that do not match are an error", "[comm]") {
  const std::string difference = GENERATE("collective", "arena", "first element", "type");
  CAPTURE(difference);
  const auto errors = run_thread_ranks(2, timeout(5), [&](Communicator& group) {
    const auto one = group.allocate_arena(DType::f32, 1000);
    const auto other = group.allocate_arena(DType::bf16, 2000);
    const auto third = group.allocate_arena(DType::f32, 1000);
    NoStream stream;
    ArenaRange range{one.get(), 0, 100};
    if (group.world().rank == 1) {
      if (difference == "collective") return void(group.all_gather(range, fc1, stream));
      if (difference == "arena") range.arena = third.get();
      if (difference == "first element") range.first = 16;
      if (difference == "type") range = {other.get(), 0, 200};
    }
    group.reduce_scatter(range, fc1, stream);
  });
  // Whoever notices first names its own.
  for (const std::string& error : errors) {
    CHECK_THAT(error, contains("made another call than ") && contains(" 4 (bucket 0, fc1.weight)"));
  }
}

TEST_CASE("calls that do not match are an error, not a wrong sum", "[comm]") {
  const auto errors = run_thread_ranks(2, timeout(5), [](Communicator& group) {
    const auto arena = group.allocate_arena(DType::f32, 1 << 18);
    NoStream stream;
    const std::int64_t count = group.world().rank == 0 ? 100 : 101;
    group.all_reduce({arena.get(), 0, count}, fc1, stream);
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error, contains("made another call than all-reduce 2 (bucket 0, fc1.weight)"));
  }
}

TEST_CASE("several nodes and unknown backends are refused", "[comm]") {
  World world = local_world(0, 4, fresh_run_id());
  world.local_size = 2;
  CHECK_THROWS_AS(make_communicator(world, timeout(1)), UsageError);
  for (const char* backend : {"nccl", "gloo"}) {
    CHECK_THROWS_AS(make_communicator(local_world(0, 2, "x"), {.timeout = Seconds(1), .backend = backend}),
                    UsageError);
  }
}

TEST_CASE("a process that ends before its body does is no rank that did well", "[comm]") {
  CHECK(RankProcess([] {}).outcome().empty());
  CHECK(RankProcess([] { throw std::runtime_error("no more data"); }).outcome() == "no more data");
  CHECK(RankProcess([] { _exit(86); }).outcome() == "(ended with 86)");
  CHECK(RankProcess([] { raise(SIGKILL); }).outcome() == "(killed by signal 9)");
}
