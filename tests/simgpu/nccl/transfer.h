#pragma once

#include <cstddef>
#include <span>

#include "tests/simgpu/nccl/call.h"

namespace simgpu::nccl {

/// How a collective moves one chunk through the ranks' mailboxes: each rank fills its own; when all have, an
/// all-reduce sums its own slice in place; when all have, each rank collects its result.
class Transfer {
 public:
  Transfer(const Call& call, int rank, int ranks, const std::byte* send, std::byte* receive);

  std::size_t chunks() const { return chunks_; }
  bool sums_in_mailbox() const { return call_.kind == Call::Kind::all_reduce; }

  /// `mailboxes`: one for each rank.
  void fill(std::size_t chunk, std::span<std::byte* const> mailboxes) const;
  void sum(std::size_t chunk, std::span<std::byte* const> mailboxes) const;
  void collect(std::size_t chunk, std::span<std::byte* const> mailboxes) const;

 private:
  /// The chunk as bytes of a block of `call_.count` elements.
  struct Range {
    std::size_t begin, bytes;
  };
  Range range(std::size_t chunk) const;
  /// The part of a chunk that rank sums.
  Range slice(Range chunk, std::size_t rank) const;

  Call call_;
  std::size_t rank_;
  std::size_t ranks_;
  const std::byte* send_;
  std::byte* receive_;
  std::size_t element_;      ///< bytes
  std::size_t block_;        ///< bytes of `count` elements
  std::size_t chunk_bytes_;  ///< of a block
  std::size_t chunks_;
};

}  // namespace simgpu::nccl
