#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "comm/host/slices.h"
#include "kernels/base/dtype.h"

namespace lockstep::comm {

/// Small enough that sums start early. Over the loopback interface 25 MiB between 2 ranks took 14 ms with
/// chunks of 512 KiB or 1 MiB, and 33 ms and more with 128 KiB or less.
inline constexpr std::size_t most_chunk_bytes = std::size_t{512} << 10;

/// As what a sum of `ranks` terms travels: a sum of several halves is not rounded before all are in it.
constexpr DType travel_type(DType dtype, int ranks) {
  return ranks > 1 && is_half(dtype) ? DType::f32 : dtype;
}

/// A bucket, cut into a slice for each owner, and each slice into chunks: where they are, in bytes of the
/// arena. However they travel, they have at most `most_chunk_bytes`.
class Chunks {
 public:
  struct Range {
    std::size_t begin = 0;
    std::size_t end = 0;

    std::size_t size() const { return end - begin; }
  };

  Chunks() = default;
  Chunks(std::size_t offset, std::size_t bytes, DType dtype, int ranks)
      : offset_(offset),
        bytes_(bytes),
        chunk_bytes_(is_half(dtype) ? most_chunk_bytes / 2 : most_chunk_bytes),
        ranks_(ranks) {}

  std::size_t count(int owner) const { return (slice(owner).size() + chunk_bytes_ - 1) / chunk_bytes_; }
  Range at(int owner, std::size_t chunk) const {
    const Range whole = slice(owner);
    const std::size_t begin = whole.begin + chunk * chunk_bytes_;
    return {begin, std::min(whole.end, begin + chunk_bytes_)};
  }

 private:
  Range slice(int owner) const {
    return {offset_ + slice_begin(bytes_, owner, ranks_), offset_ + slice_begin(bytes_, owner + 1, ranks_)};
  }

  std::size_t offset_ = 0;
  std::size_t bytes_ = 0;
  std::size_t chunk_bytes_ = most_chunk_bytes;
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

}  // namespace lockstep::comm
