#include "comm/host/host_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "comm/host/slices.h"
#include "comm/host/tree_sum.h"
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
  const auto scope = node_.begin_all_reduce(offset, count, dtype, label);
  const std::size_t bytes = count * size_of(dtype);
  if (bytes <= small_bytes) {
    sum_through_mailboxes(dtype, node_.arena().subspan(offset, bytes));
  } else {
    node_.arrive();
    sum_slice_in_place(dtype, offset, bytes);
    node_.arrive();
  }
  return node_.timing(node_.call().all_here);
}

void HostCommunicator::sum_slice_in_place(DType dtype, std::size_t offset, std::size_t bytes) {
  const auto ranks = static_cast<std::size_t>(world_.size);
  const std::size_t begin = slice_begin(bytes, world_.rank, world_.size);
  const std::size_t end = slice_begin(bytes, world_.rank + 1, world_.size);
  std::array<Term, max_local_ranks> terms;
  std::array<std::byte*, max_local_ranks> outputs;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    outputs[rank] = node_.shared().arena(static_cast<int>(rank)).data() + offset + begin;
    terms[rank] = {outputs[rank], dtype};
  }
  tree_sum(dtype, tree_, std::span(terms.data(), ranks), std::span(outputs.data(), ranks),
           (end - begin) / size_of(dtype));
}

void HostCommunicator::sum_through_mailboxes(DType dtype, std::span<std::byte> values) {
  const auto ranks = static_cast<std::size_t>(world_.size);
  std::array<Term, max_local_ranks> terms;
  do {
    const auto piece = values.first(std::min(values.size(), Segment::mailbox_bytes));
    const std::uint32_t round = node_.next_round();
    std::ranges::copy(piece, node_.shared().mailbox(world_.rank, round).begin());
    node_.arrive();
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      terms[rank] = {node_.shared().mailbox(static_cast<int>(rank), round).data(), dtype};
    }
    std::byte* const output = piece.data();
    tree_sum(dtype, tree_, std::span(terms.data(), ranks), std::span(&output, 1),
             piece.size() / size_of(dtype));
    values = values.subspan(piece.size());
  } while (!values.empty());
}

void HostCommunicator::all_reduce_sum(std::span<double> values) {
  const auto scope = node_.begin(Call::Kind::all_reduce_sum, values.size_bytes());
  sum_through_mailboxes(DType::f64, std::as_writable_bytes(values));
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

}  // namespace lockstep::comm
