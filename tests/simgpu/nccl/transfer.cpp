#include "tests/simgpu/nccl/transfer.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/simgpu/nccl/arithmetic.h"
#include "tests/simgpu/nccl/segment.h"

namespace simgpu::nccl {
namespace {

std::size_t divide_up(std::size_t whole, std::size_t part) {
  return (whole + part - 1) / part;
}

std::vector<const std::byte*> at(std::span<std::byte* const> mailboxes, std::size_t offset) {
  std::vector<const std::byte*> result;
  for (const std::byte* mailbox : mailboxes) result.push_back(mailbox + offset);
  return result;
}

}  // namespace

Transfer::Transfer(const Call& call, int rank, int ranks, const std::byte* send, std::byte* receive)
    : call_(call),
      rank_(static_cast<std::size_t>(rank)),
      ranks_(static_cast<std::size_t>(ranks)),
      send_(send),
      receive_(receive),
      element_(type_bytes(call.type)),
      block_(call.count * element_) {
  // A reduce-scatter's chunk holds a piece of every rank's block.
  const std::size_t pieces = call.kind == Call::Kind::reduce_scatter ? ranks_ : 1;
  chunk_bytes_ = Segment::mailbox_bytes / pieces / element_ * element_;
  chunks_ = divide_up(block_, chunk_bytes_);
}

Transfer::Range Transfer::range(std::size_t chunk) const {
  const std::size_t begin = chunk * chunk_bytes_;
  return {begin, std::min(chunk_bytes_, block_ - begin)};
}

Transfer::Range Transfer::slice(Range chunk, std::size_t rank) const {
  const std::size_t elements = chunk.bytes / element_;
  const std::size_t begin = elements * rank / ranks_ * element_;
  return {begin, elements * (rank + 1) / ranks_ * element_ - begin};
}

void Transfer::fill(std::size_t chunk, std::span<std::byte* const> mailboxes) const {
  const auto [begin, bytes] = range(chunk);
  std::byte* const mailbox = mailboxes[rank_];
  if (call_.kind == Call::Kind::reduce_scatter) {
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      std::memcpy(mailbox + rank * bytes, send_ + rank * block_ + begin, bytes);
    }
  } else if (call_.kind != Call::Kind::broadcast || rank_ == static_cast<std::size_t>(call_.root)) {
    std::memcpy(mailbox, send_ + begin, bytes);
  }
}

void Transfer::sum(std::size_t chunk, std::span<std::byte* const> mailboxes) const {
  const auto [begin, bytes] = slice(range(chunk), rank_);
  sum_in_order(at(mailboxes, begin), mailboxes[rank_] + begin, bytes / element_, call_.type);
}

void Transfer::collect(std::size_t chunk, std::span<std::byte* const> mailboxes) const {
  const Range whole = range(chunk);
  switch (call_.kind) {
    case Call::Kind::all_reduce:
      for (std::size_t rank = 0; rank < ranks_; ++rank) {
        const auto [begin, bytes] = slice(whole, rank);
        std::memcpy(receive_ + whole.begin + begin, mailboxes[rank] + begin, bytes);
      }
      break;
    case Call::Kind::reduce_scatter:
      sum_in_order(at(mailboxes, rank_ * whole.bytes), receive_ + whole.begin, whole.bytes / element_,
                   call_.type);
      break;
    case Call::Kind::reduce:
      if (rank_ != static_cast<std::size_t>(call_.root)) break;
      sum_in_order(at(mailboxes, 0), receive_ + whole.begin, whole.bytes / element_, call_.type);
      break;
    case Call::Kind::all_gather:
      for (std::size_t rank = 0; rank < ranks_; ++rank) {
        std::memcpy(receive_ + rank * block_ + whole.begin, mailboxes[rank], whole.bytes);
      }
      break;
    case Call::Kind::broadcast:
      std::memcpy(receive_ + whole.begin, mailboxes[static_cast<std::size_t>(call_.root)], whole.bytes);
      break;
  }
}

}  // namespace simgpu::nccl
