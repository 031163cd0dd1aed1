#include "comm/rendezvous/start.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "kernels/base/error.h"
#include "kernels/base/host.h"

namespace lockstep::comm {
namespace {

/// A start that has lost a process tells that it has failed within this.
constexpr Seconds time_to_fail{1};

/// The next start's store may be at another port.
constexpr Seconds time_at_old_store{0.5};

std::string key_of_start(int first_rank) {
  return fmt::format("start/{}", first_rank);
}

/// Nodes that count differently would wait for ranks that nobody starts.
void require_same_size(StoreClient& store, const World& world, Deadline deadline) {
  constexpr std::string_view key = "size";
  if (world.rank == 0) store.set(key, std::to_string(world.size), deadline);
  const std::string size = store.wait(key, deadline);
  if (size == std::to_string(world.size)) return;
  const std::string refusal = fmt::format(
      "rank {} counts {} ranks, rank 0 counts {}: start all nodes with the same number of nodes, and "
      "of ranks on each; another run wants another --rdzv-id and --master-port",
      world.rank, world.size, size);
  store.set(refusal_key, refusal, deadline);
  throw UsageError(refusal);
}

/// What keeps this rank out of a start that has failed, or whose ranks have met already. UsageError when that
/// goes on.
std::optional<std::string> obstacle_in(StoreClient& store, const World& world, Deadline deadline) {
  const char* const has_failed = "it is of a start that has failed";
  if (store.get(abort_key, deadline)) return has_failed;
  if (!store.get(peers_key + std::to_string(world.rank), deadline)) return std::nullopt;
  const auto holder = store.get(key_of_place(world.rank), deadline);
  if (!holder) return fmt::format("it is of a start that rank {} has left", world.rank);
  const Deadline end = Deadline::in(std::min(deadline.left(), time_to_fail));
  if (store.wait_for(abort_key, end)) return has_failed;
  // A node that counts fewer ranks has numbers that are taken. Rank 0 would say itself what the size is.
  if (world.rank != 0) require_same_size(store, world, deadline);
  throw second_start(world.run_id, *holder);
}

/// Of two launches of a node one goes on with all its ranks: that whose first rank has its place.
void require_own_launch(StoreClient& store, const World& world, int first_rank, Deadline deadline) {
  const auto start = store.wait_for(key_of_start(first_rank), deadline);
  if (!start) throw CommError(fmt::format("rank {} did not join the rendezvous in time", first_rank));
  if (*start == std::to_string(world.start_ns)) return;
  throw second_start(
      world.run_id,
      store.get(key_of_place(first_rank), deadline).value_or(fmt::format("rank {}", first_rank)));
}

/// UsageError when another process has this rank's place. Whoever has none is not missed when it goes.
void take_place(StoreClient& store, const World& world, Deadline deadline) {
  const int first_rank = world.rank - world.local_rank;
  const bool is_launched = world.start_ns != 0;
  if (is_launched && world.rank != first_rank) require_own_launch(store, world, first_rank, deadline);
  const std::string own = fmt::format("rank {} (pid {} on {})", world.rank, getpid(), host_name());
  if (const auto holder = store.claim(key_of_place(world.rank), own, deadline)) {
    throw second_start(world.run_id, *holder);
  }
  // A claim, too: ranks of the node's next launch must not take it for that of a second one.
  if (is_launched && world.rank == first_rank) {
    store.claim(key_of_start(first_rank), std::to_string(world.start_ns), deadline);
  }
}

}  // namespace

std::string key_of_place(int rank) {
  return places_key + std::to_string(rank);
}

std::optional<std::string> join_start(StoreClient& store, const World& world, Deadline deadline) {
  if (auto obstacle = obstacle_in(store, world, deadline)) {
    store.wait_for_end(Deadline::in(std::min(deadline.left(), time_at_old_store)));
    return obstacle;
  }
  require_same_size(store, world, deadline);
  take_place(store, world, deadline);
  return std::nullopt;
}

}  // namespace lockstep::comm
