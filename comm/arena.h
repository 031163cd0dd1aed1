#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "kernels/base/alignment.h"
#include "kernels/base/dtype.h"

namespace lockstep::comm {

/// Where shard `rank` of `bytes` begins when `ranks` ranks share them: on a cache line, so that no two ranks
/// write the same one; shard `ranks` begins at the end.
constexpr std::size_t shard_begin(std::size_t bytes, int rank, int ranks) {
  const std::size_t lines = whole_lines(bytes) / cache_line;
  const std::size_t begin =
      lines * static_cast<std::size_t>(rank) / static_cast<std::size_t>(ranks) * cache_line;
  return begin < bytes ? begin : bytes;
}

/// Memory that collectives work on in place: `elements` numbers of one type, zeroed when it is allocated and
/// aligned to `workspace_alignment`, since what is idle of it serves kernels as scratch memory.
/// Communicator::allocate_arena makes it.
class Arena {
 public:
  virtual ~Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::byte* data() const { return data_; }
  DType dtype() const { return dtype_; }
  std::int64_t elements() const { return elements_; }
  std::size_t bytes() const { return static_cast<std::size_t>(elements_) * size_of(dtype_); }

  /// The group that allocated it; no other group accepts it in a collective.
  const void* owner() const { return owner_; }
  /// Which of its owner's arenas it is; the same on all ranks.
  std::uint32_t number() const { return number_; }

 protected:
  struct Identity {
    const void* owner;
    std::uint32_t number;
  };
  Arena(Identity identity, std::byte* data, DType dtype, std::int64_t elements)
      : owner_(identity.owner), number_(identity.number), data_(data), dtype_(dtype), elements_(elements) {}

 private:
  const void* owner_;
  std::uint32_t number_;
  std::byte* data_;
  DType dtype_;
  std::int64_t elements_;
};

/// An arena in this process's memory. Copies of `memory` keep it longer than the arena.
class HeapArena final : public Arena {
 public:
  using Memory = std::shared_ptr<std::byte>;

  HeapArena(const void* owner, std::uint32_t number, DType dtype, std::int64_t elements, Memory memory)
      : Arena({owner, number}, memory.get(), dtype, elements), memory_(std::move(memory)) {}

  static Memory allocate(DType dtype, std::int64_t elements);

 private:
  Memory memory_;
};

/// Elements first, first + 1, ... of an arena. `first` is on a 64-byte line; `count` is any.
struct ArenaRange {
  const Arena* arena = nullptr;
  std::int64_t first = 0;
  std::int64_t count = 0;

  DType dtype() const { return arena->dtype(); }
  std::size_t begin_bytes() const { return static_cast<std::size_t>(first) * size_of(dtype()); }
  std::size_t bytes() const { return static_cast<std::size_t>(count) * size_of(dtype()); }
  std::byte* data() const { return arena->data() + begin_bytes(); }
};

/// The whole arena.
inline ArenaRange all_of(const Arena& arena) {
  return {.arena = &arena, .first = 0, .count = arena.elements()};
}

/// The shard of a range that rank `rank` of `ranks` owns: whole 64-byte lines but for the range's end, as
/// many on each rank as on the others or one more. With fewer lines than ranks some shards are empty.
ArenaRange shard_of(const ArenaRange& range, int rank, int ranks);

/// The first part of a shard that begins with the number of its bytes in use (i64); all of one too short for
/// that.
ArenaRange filled_part(const ArenaRange& shard);

/// std::logic_error, beginning with `collective`, unless every range is in an arena of `owner` and
/// begins on a line.
void check_ranges(std::span<const ArenaRange> ranges, const void* owner, std::string_view collective);
/// And unless its elements are floating-point numbers.
void check_summable_ranges(std::span<const ArenaRange> ranges, const void* owner,
                           std::string_view collective);

/// Differs, but for accident, between lists of ranges that ranks must not exchange with each other.
std::uint64_t signature_of(std::span<const ArenaRange> ranges);

}  // namespace lockstep::comm
