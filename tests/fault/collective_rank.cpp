// One of three ranks of stopped_peers.cpp: `collective_rank COLLECTIVE MOMENT`. Rank 1 is the one that
// something happens to, before the collective, in it (rank 2 comes late) or after it. It tells what it does
// by lines.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <functional>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "comm/communicator.h"
#include "comm/make_communicator.h"
#include "comm/world/world.h"
#include "kernels/base/error.h"
#include "tests/support/no_stream.h"

namespace lockstep::comm {
namespace {

constexpr int victim = 1;
constexpr int late = 2;
constexpr std::int64_t small = 16;       // by shared memory through mailboxes
constexpr std::int64_t large = 1 << 18;  // straight from arenas, in several chunks

struct Ranks {
  Communicator& group;
  Arena& arena;
  tests::NoStream stream;
  ExchangeLabel label{.bucket = 0, .what = "fc.weight"};

  ArenaRange range(std::int64_t count) { return {&arena, 0, count}; }
};

const std::map<std::string, std::function<void(Ranks&)>> collectives{
    {"all_reduce", [](Ranks& r) { r.group.all_reduce(r.range(small), r.label, r.stream); }},
    {"large_all_reduce", [](Ranks& r) { r.group.all_reduce(r.range(large), r.label, r.stream); }},
    {"reduce_scatter", [](Ranks& r) { r.group.reduce_scatter(r.range(large), r.label, r.stream); }},
    {"all_gather", [](Ranks& r) { r.group.all_gather(r.range(large), r.label, r.stream); }},
    {"all_gather_filled",
     [](Ranks& r) {
       // Each shard begins with the bytes that are in use: all arenas are zero, and 8 is the least.
       const ArenaRange mine = shard_of(r.range(large), r.group.world().rank, r.group.world().size);
       *reinterpret_cast<std::int64_t*>(mine.data()) = 8;
       r.group.all_gather_filled(r.range(large), r.label, r.stream);
     }},
    {"sum",
     [](Ranks& r) {
       std::vector<double> values{1, 2};
       r.group.all_reduce_sum(values);
     }},
    {"broadcast",
     [](Ranks& r) {
       std::vector<std::byte> bytes(1000);
       r.group.broadcast(bytes, victim);
     }},
    {"texts", [](Ranks& r) { r.group.all_gather("a text"); }},
    {"barrier", [](Ranks& r) { r.group.barrier(); }},
};

void tell(const World& world, const char* what) {
  fmt::print("{} of rank {}, pid{}={}.\n", what, world.rank, world.rank, ::getpid());
  std::fflush(stdout);
}

void wait_for_user_signal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  int number = 0;
  ::sigwait(&set, &number);
}

void play(const World& world, const std::string& collective, const std::string& moment) {
  const char* const backend = std::getenv("COLLECTIVE_BACKEND");
  const bool is_mpi = backend != nullptr;
  const char* const node = std::getenv("LOCKSTEP_NODE");
  const auto group = make_communicator(
      world,
      {.timeout = Seconds(3), .backend = is_mpi ? backend : "host", .node = node == nullptr ? "" : node});
  const auto arena = group->allocate_arena(DType::f32, large);
  Ranks ranks{.group = *group, .arena = *arena, .stream = {}};
  group->barrier();
  if (moment == "before" && world.rank == victim) {
    tell(world, "start");
    while (true) ::pause();
  }
  tell(world, "start");
  if (moment == "in" && world.rank == late) wait_for_user_signal();
  collectives.at(collective)(ranks);
  if (moment != "after") return;
  tell(world, "end");
  if (world.rank == victim) {
    while (true) ::pause();
  }
}

}  // namespace
}  // namespace lockstep::comm

int main(int, char** argv) {
  using namespace lockstep;
  sigset_t late_comers;
  sigemptyset(&late_comers);
  sigaddset(&late_comers, SIGUSR1);
  ::sigprocmask(SIG_BLOCK, &late_comers, nullptr);
  std::signal(SIGTERM, SIG_IGN);  // launch's, for a lost peer: it is told by the collective
  try {
    comm::play(comm::find_world(comm::process_environment()), argv[1], argv[2]);
    fmt::print("ended: passed\n");
    return 0;
  } catch (const Error& error) {
    fmt::print("ended: {}\n", error.what());
    std::fflush(stdout);
    return static_cast<int>(error.code());
  }
}
