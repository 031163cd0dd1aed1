#include "comm/host/host_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

#include "comm/host/slices.h"
#include "comm/host/tree_sum.h"
#include "kernels/base/error.h"

namespace lockstep::comm {
namespace {

constexpr int max_local_ranks = 256;

/// Up to this size a copy through the mailboxes and one round beat two rounds in place.
constexpr std::size_t small_bytes = std::size_t{16} << 10;

constexpr std::size_t cache_line = 64;

const World& on_one_node(const World& world) {
  if (world.size > max_local_ranks) {
    throw UsageError(fmt::format("{} ranks on one node: at most {}", world.size, max_local_ranks));
  }
  return world;
}

std::int64_t nanoseconds(Clock::duration duration) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
}

}  // namespace

HostCommunicator::HostCommunicator(const World& world, const CommOptions& options)
    : world_(on_one_node(world)),
      node_(all_on_one_node(world), options.timeout),
      tree_(world.size),
      watchdog_(node_, world.size, nullptr) {}

std::span<std::byte> HostCommunicator::allocate_arena(std::size_t bytes) {
  const auto scope = node_.begin(Call::Kind::allocate_arena, bytes);
  node_.map_arenas(bytes);
  return node_.arena().first(bytes);
}

ExchangeTiming HostCommunicator::all_reduce(std::size_t offset, std::size_t count, DType dtype,
                                            ExchangeLabel label, kernels::Stream&) {
  const std::size_t bytes = count * size_of(dtype);
  if (offset % cache_line != 0 || offset + bytes > node_.arena().size()) {
    throw std::invalid_argument("all_reduce: the range is not aligned or not in the arena");
  }
  const auto scope =
      node_.begin(Call::Kind::all_reduce, bytes, offset * 8 + static_cast<std::size_t>(dtype), label);
  switch (dtype) {
    case DType::f32:
      all_reduce_in_arena<float>(offset, count);
      break;
    case DType::f64:
      all_reduce_in_arena<double>(offset, count);
      break;
    default:
      throw std::invalid_argument("all_reduce: f32 or f64 only");
  }
  return {.skew_ns = nanoseconds(node_.call().all_here - node_.call().start),
          .transfer_ns = nanoseconds(Clock::now() - node_.call().all_here)};
}

template <class T>
void HostCommunicator::all_reduce_in_arena(std::size_t offset, std::size_t count) {
  if (count * sizeof(T) <= small_bytes) {
    T* values = reinterpret_cast<T*>(node_.arena().data() + offset);
    return sum_through_mailboxes(std::span<T>(values, count));
  }
  node_.arrive();
  sum_slice_in_place<T>(offset, slice_begin(count, sizeof(T), world_.rank, world_.size),
                        slice_begin(count, sizeof(T), world_.rank + 1, world_.size));
  node_.arrive();
}

template <class T>
void HostCommunicator::sum_slice_in_place(std::size_t offset, std::size_t begin, std::size_t end) {
  const auto ranks = static_cast<std::size_t>(world_.size);
  std::array<T*, max_local_ranks> slices;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    slices[rank] = reinterpret_cast<T*>(node_.shared().arena(static_cast<int>(rank)).data() + offset) + begin;
  }
  tree_sum(tree_, std::span<const T* const>(slices.data(), ranks), std::span<T* const>(slices.data(), ranks),
           end - begin);
}

template <class T>
void HostCommunicator::sum_through_mailboxes(std::span<T> values) {
  const auto ranks = static_cast<std::size_t>(world_.size);
  std::array<const T*, max_local_ranks> inputs;
  do {
    const auto piece = values.first(std::min(values.size(), Segment::mailbox_bytes / sizeof(T)));
    const std::uint32_t round = node_.next_round();
    std::copy(piece.begin(), piece.end(),
              reinterpret_cast<T*>(node_.shared().mailbox(world_.rank, round).data()));
    node_.arrive();
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      inputs[rank] = reinterpret_cast<const T*>(node_.shared().mailbox(static_cast<int>(rank), round).data());
    }
    T* const output = piece.data();
    tree_sum(tree_, std::span<const T* const>(inputs.data(), ranks), std::span<T* const>(&output, 1),
             piece.size());
    values = values.subspan(piece.size());
  } while (!values.empty());
}

void HostCommunicator::all_reduce_sum(std::span<double> values) {
  const auto scope = node_.begin(Call::Kind::all_reduce_sum, values.size_bytes());
  sum_through_mailboxes(values);
}

void HostCommunicator::broadcast(std::span<std::byte> bytes, int root) {
  const auto scope = node_.begin(Call::Kind::broadcast, bytes.size(), static_cast<std::uint64_t>(root));
  do {
    const auto piece = bytes.first(std::min(bytes.size(), Segment::mailbox_bytes));
    const auto mailbox = node_.shared().mailbox(root, node_.next_round());
    if (world_.rank == root) std::copy(piece.begin(), piece.end(), mailbox.begin());
    node_.arrive();
    if (world_.rank != root) std::copy_n(mailbox.begin(), piece.size(), piece.begin());
    bytes = bytes.subspan(piece.size());
  } while (!bytes.empty());
}

std::vector<std::string> HostCommunicator::all_gather(std::string_view mine) {
  const auto scope = node_.begin(Call::Kind::all_gather, 0);
  std::vector<std::string> texts(static_cast<std::size_t>(world_.size));
  bool complete = false;
  // A piece is the length of what is left, then as much of it as fits.
  while (!complete) {
    const std::uint32_t round = node_.next_round();
    const auto outgoing = node_.shared().mailbox(world_.rank, round);
    const std::uint64_t left = mine.size();
    const std::size_t room = outgoing.size() - sizeof(left);
    std::memcpy(outgoing.data(), &left, sizeof(left));
    mine.copy(reinterpret_cast<char*>(outgoing.data() + sizeof(left)), room);
    mine.remove_prefix(std::min(mine.size(), room));
    node_.arrive();
    complete = true;
    for (int rank = 0; rank < world_.size; ++rank) {
      const auto incoming = node_.shared().mailbox(rank, round);
      std::uint64_t pending = 0;
      std::memcpy(&pending, incoming.data(), sizeof(pending));
      texts[static_cast<std::size_t>(rank)].append(
          reinterpret_cast<const char*>(incoming.data() + sizeof(pending)),
          std::min<std::size_t>(pending, room));
      complete = complete && pending <= room;
    }
  }
  return texts;
}

void HostCommunicator::barrier() {
  const auto scope = node_.begin(Call::Kind::barrier, 0);
  node_.arrive();
}

void HostCommunicator::abort(std::string_view reason) noexcept {
  try {
    node_.abort(fmt::format("rank {}: {}", world_.rank, reason));
  } catch (const std::exception&) {
    node_.abort(reason);
  }
}

std::optional<FailureReport> HostCommunicator::failure_report() {
  if (!failed()) return std::nullopt;
  return watchdog_.report();
}

}  // namespace lockstep::comm
