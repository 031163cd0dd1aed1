#include "comm/shm/shm_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "comm/reduce/reduce.h"
#include "kernels/base/error.h"

namespace lockstep::comm {
namespace {

constexpr int max_local_ranks = 256;

/// Up to this size a copy through the mailboxes and one round beat two rounds in place.
constexpr std::size_t small_bytes = std::size_t{16} << 10;

const World& on_one_node(const World& world) {
  if (world.size > max_local_ranks) {
    throw UsageError(fmt::format("{} ranks on one node: at most {}", world.size, max_local_ranks));
  }
  return world;
}

}  // namespace

ShmCommunicator::ShmCommunicator(const World& world, const CommOptions& options)
    : world_(on_one_node(world)),
      node_(all_on_one_node(world), options.timeout, Deadline::in(options.timeout)),
      tree_(world.size),
      watchdog_(node_, world.size, nullptr) {}

std::unique_ptr<Arena> ShmCommunicator::allocate_arena(DType dtype, std::int64_t elements) {
  const auto scope = node_.begin_allocation(dtype, elements);
  return node_.allocate_arena(dtype, elements);
}

ExchangeTiming ShmCommunicator::all_reduce(std::span<const ArenaRange> ranges, ExchangeLabel label,
                                           kernels::Stream&) {
  check_summable_ranges(ranges, &node_, "all_reduce");
  const auto scope = node_.begin(Call::Kind::all_reduce, ranges, label);
  std::size_t bytes = 0;
  for (const ArenaRange& range : ranges) bytes += whole_lines(range.bytes());
  if (bytes <= small_bytes) {
    sum_through_mailboxes(ranges);
  } else {
    node_.arrive();
    for (const ArenaRange& range : ranges) sum_shard(range, {0, world_.size});
    node_.arrive();
  }
  return node_.timing(node_.call().all_here);
}

ExchangeTiming ShmCommunicator::reduce_scatter(const ArenaRange& range, ExchangeLabel label,
                                               kernels::Stream&) {
  check_summable_ranges(std::span(&range, 1), &node_, "reduce_scatter");
  const auto scope = node_.begin(Call::Kind::reduce_scatter, std::span(&range, 1), label);
  node_.arrive();
  sum_shard(range, {world_.rank, world_.rank + 1});
  node_.arrive();
  return node_.timing(node_.call().all_here);
}

ExchangeTiming ShmCommunicator::all_gather(const ArenaRange& range, ExchangeLabel label, kernels::Stream&) {
  return gather(Call::Kind::all_gather, range, label, [](const ArenaRange& shard) { return shard; });
}

ExchangeTiming ShmCommunicator::all_gather_filled(const ArenaRange& range, ExchangeLabel label,
                                                  kernels::Stream&) {
  return gather(Call::Kind::all_gather_filled, range, label, filled_part);
}

ExchangeTiming ShmCommunicator::gather(Call::Kind kind, const ArenaRange& range, ExchangeLabel label,
                                       ArenaRange (*part_of)(const ArenaRange& shard)) {
  check_ranges(std::span(&range, 1), &node_, "all_gather");
  const auto scope = node_.begin(kind, std::span(&range, 1), label);
  node_.arrive();
  node_.copy_to_members(part_of(shard_of(range, world_.rank, world_.size)));
  node_.arrive();
  return node_.timing(node_.call().all_here);
}

void ShmCommunicator::sum_shard(const ArenaRange& range, RankRange receivers) {
  const auto ranks = static_cast<std::size_t>(world_.size);
  const ArenaRange shard = shard_of(range, world_.rank, world_.size);
  std::array<ReduceInput, max_local_ranks> operands;
  std::array<std::byte*, max_local_ranks> outputs;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    outputs[rank] = data_of(shard, static_cast<int>(rank));
    operands[rank] = {outputs[rank], shard.dtype()};
  }
  reduce(shard.dtype(), tree_, std::span(operands.data(), ranks),
         std::span(outputs.data() + receivers.first, static_cast<std::size_t>(receivers.size())),
         static_cast<std::size_t>(shard.count));
}

void ShmCommunicator::sum_through_mailboxes(std::span<const ArenaRange> ranges) {
  const std::uint32_t round = node_.next_round();
  std::byte* next = node_.shared().mailbox(world_.rank, round).data();
  for (const ArenaRange& range : ranges) {
    std::memcpy(next, range.data(), range.bytes());
    next += whole_lines(range.bytes());
  }
  node_.arrive();
  std::size_t offset = 0;
  for (const ArenaRange& range : ranges) {
    sum_mailboxes(round, offset, range.dtype(), {range.data(), range.bytes()});
    offset += whole_lines(range.bytes());
  }
}

void ShmCommunicator::sum_mailboxes(std::uint32_t round, std::size_t offset, DType dtype,
                                    std::span<std::byte> sum) {
  const auto ranks = static_cast<std::size_t>(world_.size);
  std::array<ReduceInput, max_local_ranks> operands;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    operands[rank] = {node_.shared().mailbox(static_cast<int>(rank), round).data() + offset, dtype};
  }
  std::byte* const output = sum.data();
  reduce(dtype, tree_, std::span(operands.data(), ranks), std::span(&output, 1), sum.size() / size_of(dtype));
}

void ShmCommunicator::all_reduce_sum(std::span<double> values) {
  const auto scope = node_.begin(Call::Kind::all_reduce_sum, values.size_bytes());
  auto bytes = std::as_writable_bytes(values);
  do {
    const auto piece = bytes.first(std::min(bytes.size(), Segment::mailbox_bytes));
    const std::uint32_t round = node_.next_round();
    std::ranges::copy(piece, node_.shared().mailbox(world_.rank, round).begin());
    node_.arrive();
    sum_mailboxes(round, 0, DType::f64, piece);
    bytes = bytes.subspan(piece.size());
  } while (!bytes.empty());
}

void ShmCommunicator::broadcast(std::span<std::byte> bytes, int root) {
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

std::vector<std::string> ShmCommunicator::all_gather(std::string_view mine) {
  const auto scope = node_.begin(Call::Kind::all_gather_texts, 0);
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

void ShmCommunicator::barrier() {
  const auto scope = node_.begin(Call::Kind::barrier, 0);
  node_.arrive();
}

}  // namespace lockstep::comm
