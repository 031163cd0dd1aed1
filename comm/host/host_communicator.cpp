#include "comm/host/host_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

#include "comm/host/tree_sum.h"
#include "kernels/base/error.h"

namespace lockstep::comm {
namespace {

constexpr int max_local_ranks = 256;

/// Up to this size a copy through the mailboxes and one round beat two rounds in place.
constexpr std::size_t small_bytes = std::size_t{16} << 10;

constexpr std::size_t cache_line = 64;

const World& on_one_node(const World& world) {
  if (world.local_size != world.size) {
    throw UsageError(fmt::format("{} of {} ranks are on this node: several nodes are not in this version",
                                 world.local_size, world.size));
  }
  if (world.size > max_local_ranks) {
    throw UsageError(fmt::format("{} ranks on one node: at most {}", world.size, max_local_ranks));
  }
  return world;
}

/// Where slice `index` of `count` elements begins when `ranks` share them: on a cache line, so that no two
/// ranks write the same one.
std::size_t slice_begin(std::size_t count, std::size_t element_bytes, int index, int ranks) {
  const std::size_t per_line = cache_line / element_bytes;
  const std::size_t lines = (count + per_line - 1) / per_line;
  return std::min(count,
                  lines * static_cast<std::size_t>(index) / static_cast<std::size_t>(ranks) * per_line);
}

std::int64_t nanoseconds(Clock::duration duration) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
}

}  // namespace

HostCommunicator::HostCommunicator(const World& world, const CommOptions& options)
    : world_(on_one_node(world)),
      timeout_(options.timeout),
      group_(meet_local_ranks(world_, Deadline::in(timeout_))),
      rounds_(shared_, world_.rank) {
  monitor_.emplace(std::move(group_.peers), [this](const LocalPeer& peer) {
    group_.segment.abort(name_of(peer) + " closed its connection");
  });
}

HostCommunicator::~HostCommunicator() {
  rounds_.leave();
}

void HostCommunicator::begin(Call::Kind kind, std::size_t bytes, std::uint64_t detail, ExchangeLabel label) {
  const auto now = Clock::now();
  call_ = Call{.kind = kind,
               .number = call_.number + 1,
               .bytes = bytes,
               .detail = detail,
               .label = label,
               .rounds = 0,
               .start = now,
               .all_here = now};
}

void HostCommunicator::arrive() {
  const auto deadline = call_.start + std::chrono::duration_cast<Clock::duration>(timeout_);
  const Rounds::Outcome outcome = rounds_.meet(call_.signature(), deadline);
  if (outcome != Rounds::Outcome::all_here) fail(outcome);
  if (call_.rounds++ == 0) call_.all_here = Clock::now();
}

void HostCommunicator::fail(Rounds::Outcome outcome) {
  if (outcome != Rounds::Outcome::aborted) {
    const auto ranks = outcome == Rounds::Outcome::mismatch ? rounds_.mismatched() : rounds_.missing();
    group_.segment.abort(explain(outcome, name_of_ranks(ranks), call_, timeout_));
    throw CommError(shared_.abort_reason());  // another rank's reason when that came first
  }
  throw CommError(
      fmt::format("{}; rank {} was in {}", shared_.abort_reason(), world_.rank, call_.describe()));
}

std::span<std::byte> HostCommunicator::allocate_arena(std::size_t bytes) {
  begin(Call::Kind::allocate_arena, bytes);
  const std::size_t mapped = std::max<std::size_t>(bytes, 1);
  if (world_.rank == 0) group_.segment.reserve_arenas(mapped);
  arrive();
  group_.segment.map_arenas(mapped);
  shared_.populate_arena(world_.rank);
  arrive();
  for (int rank = 0; rank < world_.size; ++rank) shared_.populate_arena(rank);
  arrive();
  return shared_.arena(world_.rank).first(bytes);
}

ExchangeTiming HostCommunicator::all_reduce(std::size_t offset, std::size_t count, DType dtype,
                                            ExchangeLabel label, kernels::Stream&) {
  const std::size_t bytes = count * size_of(dtype);
  if (offset % cache_line != 0 || offset + bytes > shared_.arena(world_.rank).size()) {
    throw std::invalid_argument("all_reduce: the range is not aligned or not in the arena");
  }
  begin(Call::Kind::all_reduce, bytes, offset * 8 + static_cast<std::size_t>(dtype), label);
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
  return {.skew_ns = nanoseconds(call_.all_here - call_.start),
          .transfer_ns = nanoseconds(Clock::now() - call_.all_here)};
}

template <class T>
void HostCommunicator::all_reduce_in_arena(std::size_t offset, std::size_t count) {
  if (count * sizeof(T) <= small_bytes) {
    T* values = reinterpret_cast<T*>(shared_.arena(world_.rank).data() + offset);
    return sum_through_mailboxes(std::span<T>(values, count));
  }
  arrive();
  sum_slice_in_place<T>(offset, slice_begin(count, sizeof(T), world_.rank, world_.size),
                        slice_begin(count, sizeof(T), world_.rank + 1, world_.size));
  arrive();
}

template <class T>
void HostCommunicator::sum_slice_in_place(std::size_t offset, std::size_t begin, std::size_t end) {
  const auto ranks = static_cast<std::size_t>(world_.size);
  std::array<T*, max_local_ranks> slices;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    slices[rank] = reinterpret_cast<T*>(shared_.arena(static_cast<int>(rank)).data() + offset) + begin;
  }
  tree_sum(std::span<const T* const>(slices.data(), ranks), std::span<T* const>(slices.data(), ranks),
           end - begin);
}

template <class T>
void HostCommunicator::sum_through_mailboxes(std::span<T> values) {
  const auto ranks = static_cast<std::size_t>(world_.size);
  std::array<const T*, max_local_ranks> inputs;
  do {
    const auto piece = values.first(std::min(values.size(), Segment::mailbox_bytes / sizeof(T)));
    const std::uint32_t round = rounds_.next();
    std::copy(piece.begin(), piece.end(), reinterpret_cast<T*>(shared_.mailbox(world_.rank, round).data()));
    arrive();
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      inputs[rank] = reinterpret_cast<const T*>(shared_.mailbox(static_cast<int>(rank), round).data());
    }
    T* const output = piece.data();
    tree_sum(std::span<const T* const>(inputs.data(), ranks), std::span<T* const>(&output, 1), piece.size());
    values = values.subspan(piece.size());
  } while (!values.empty());
}

void HostCommunicator::all_reduce_sum(std::span<double> values) {
  begin(Call::Kind::all_reduce_sum, values.size_bytes());
  sum_through_mailboxes(values);
}

void HostCommunicator::broadcast(std::span<std::byte> bytes, int root) {
  begin(Call::Kind::broadcast, bytes.size(), static_cast<std::uint64_t>(root));
  do {
    const auto piece = bytes.first(std::min(bytes.size(), Segment::mailbox_bytes));
    const auto mailbox = shared_.mailbox(root, rounds_.next());
    if (world_.rank == root) std::copy(piece.begin(), piece.end(), mailbox.begin());
    arrive();
    if (world_.rank != root) std::copy_n(mailbox.begin(), piece.size(), piece.begin());
    bytes = bytes.subspan(piece.size());
  } while (!bytes.empty());
}

std::vector<std::string> HostCommunicator::all_gather(std::string_view mine) {
  begin(Call::Kind::all_gather, 0);
  std::vector<std::string> texts(static_cast<std::size_t>(world_.size));
  bool complete = false;
  // A piece is the length of what is left, then as much of it as fits.
  while (!complete) {
    const std::uint32_t round = rounds_.next();
    const auto outgoing = shared_.mailbox(world_.rank, round);
    const std::uint64_t left = mine.size();
    const std::size_t room = outgoing.size() - sizeof(left);
    std::memcpy(outgoing.data(), &left, sizeof(left));
    mine.copy(reinterpret_cast<char*>(outgoing.data() + sizeof(left)), room);
    mine.remove_prefix(std::min(mine.size(), room));
    arrive();
    complete = true;
    for (int rank = 0; rank < world_.size; ++rank) {
      const auto incoming = shared_.mailbox(rank, round);
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
  begin(Call::Kind::barrier, 0);
  arrive();
}

void HostCommunicator::abort(std::string_view reason) noexcept {
  try {
    group_.segment.abort(fmt::format("rank {}: {}", world_.rank, reason));
  } catch (const std::exception&) {
    group_.segment.abort(reason);
  }
}

}  // namespace lockstep::comm
