#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "comm/arena.h"
#include "comm/tcp/link.h"
#include "kernels/base/division.h"
#include "kernels/base/dtype.h"

namespace lockstep::comm {

/// Small enough that sums start early. Over the loopback interface 25 MiB between 2 ranks took 14 ms with
/// chunks of 512 KiB or 1 MiB, and 33 ms and more with 128 KiB or less.
inline constexpr std::size_t most_chunk_bytes = std::size_t{512} << 10;

/// As what a sum of `ranks` operands travels: a sum of several halves is not rounded before all are in it.
constexpr DType travel_type(DType dtype, int ranks) {
  return ranks > 1 && is_half(dtype) ? DType::f32 : dtype;
}

/// Ranges, cut into a shard for each owner, and the shards into chunks, which are numbered owner by owner.
/// However they travel, they have at most `most_chunk_bytes`.
class Chunks {
 public:
  void cut(std::span<const ArenaRange> ranges, int ranks) {
    ranges_.assign(ranges.begin(), ranges.end());
    ranks_ = ranks;
  }

  std::size_t count(int owner) const {
    std::size_t chunks = 0;
    for (const ArenaRange& range : ranges_) chunks += chunks_of(shard_of(range, owner, ranks_));
    return chunks;
  }

  /// No chunk of any owner has fewer.
  std::size_t least_bytes() const {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const ArenaRange& range : ranges_) {
      for (int owner = 0; owner < ranks_; ++owner) {
        const ArenaRange shard = shard_of(range, owner, ranks_);
        if (shard.count == 0) continue;
        const std::int64_t last = (shard.count - 1) % most_elements(shard) + 1;
        least = std::min(least, last * static_cast<std::int64_t>(size_of(shard.dtype())));
      }
    }
    return static_cast<std::size_t>(least);
  }

  ArenaRange at(int owner, std::size_t chunk) const {
    for (const ArenaRange& range : ranges_) {
      const ArenaRange shard = shard_of(range, owner, ranks_);
      const std::size_t chunks = chunks_of(shard);
      if (chunk < chunks) {
        const std::int64_t begin = static_cast<std::int64_t>(chunk) * most_elements(shard);
        return {.arena = shard.arena,
                .first = shard.first + begin,
                .count = std::min(shard.count - begin, most_elements(shard))};
      }
      chunk -= chunks;
    }
    return {};
  }

 private:
  static std::int64_t most_elements(const ArenaRange& shard) {
    const DType widest = travel_type(shard.dtype(), ranks_of_a_partial_sum);
    return static_cast<std::int64_t>(most_chunk_bytes / size_of(widest));
  }
  static std::size_t chunks_of(const ArenaRange& shard) {
    return static_cast<std::size_t>(parts_of(shard.count, most_elements(shard)));
  }

  static constexpr int ranks_of_a_partial_sum = 2;
  std::vector<ArenaRange> ranges_;
  int ranks_ = 1;
};

/// Room for `most` chunks that follow each other.
class ChunkRing {
 public:
  explicit ChunkRing(std::size_t most) : most_(most) {}

  /// No longer than what was needed so far: many nodes have many rings, and short slices.
  void make_room(std::size_t chunks) {
    bytes_.resize(std::max(bytes_.size(), std::min(chunks, most_) * most_chunk_bytes));
  }
  std::byte* at(std::size_t chunk) { return bytes_.data() + chunk % most_ * most_chunk_bytes; }

 private:
  std::size_t most_;
  std::vector<std::byte> bytes_;
};

/// The order in which a link brings the chunks of a call: partial sums chunk by chunk, of each all parts, and
/// sums chunk by chunk.
class ChunkOrder {
 public:
  /// Of each of this rank's `chunks` the peer sends `parts`, and `sums` chunks of its own.
  ChunkOrder() = default;
  ChunkOrder(std::size_t parts, std::size_t chunks, std::size_t sums)
      : parts_(parts), partials_{.due = parts * chunks}, sums_{.due = sums} {}

  bool is_next(const ChunkHeader& header) const {
    if (header.kind == ChunkHeader::Kind::sum) return sums_.is_next(header.chunk);
    return header.part < parts_ && partials_.is_next(header.chunk * parts_ + header.part);
  }

  void count(const ChunkHeader& header) {
    ++(header.kind == ChunkHeader::Kind::sum ? sums_ : partials_).here;
  }

  /// "summed chunk 3 after 5 of 8"
  std::string describe(const ChunkHeader& header) const {
    if (header.kind == ChunkHeader::Kind::sum) {
      return fmt::format("summed chunk {} after {} of {}", header.chunk, sums_.here, sums_.due);
    }
    return fmt::format("part {} of chunk {} after {} of {}", header.part, header.chunk, partials_.here,
                       partials_.due);
  }

 private:
  struct Count {
    std::size_t due = 0;
    std::size_t here = 0;
    bool is_next(std::size_t number) const { return number == here && here < due; }
  };
  std::size_t parts_ = 0;
  Count partials_;
  Count sums_;
};

}  // namespace lockstep::comm
