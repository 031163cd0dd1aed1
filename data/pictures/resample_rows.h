#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "data/pictures/picture.h"

namespace lockstep::data {

inline constexpr int precision_bits = 22;  // 32 less 8 of a pixel and 2 of headroom
inline constexpr std::int32_t one_half = 1 << (precision_bits - 1);

/// Which pixels make each pixel of a line, with their weights in units of 2^-precision_bits.
struct Weights {
  struct Range {
    int first = 0;
    int count = 0;
    int end() const { return first + count; }
  };
  int most = 0;  ///< weights that each pixel has room for
  std::vector<Range> ranges;
  std::vector<std::int32_t> values;  ///< not negative; 0 behind those of the range

  const std::int32_t* of(std::size_t pixel) const {
    return values.data() + pixel * static_cast<std::size_t>(most);
  }
};

inline std::uint8_t to_byte(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> precision_bits, 0, 255));
}

/// The weights of RGB pixels by pairs of neighbours, each weight as high * 2^low_bits + low: the products of
/// 16 bits that this needs are exact, so the sums are those of 32 bits.
class PairedWeights {
 public:
  static constexpr int low_bits = 11;
  static constexpr int bytes_loaded = 8;  ///< for a pair, which has 6

  struct Pair {
    std::int16_t high[2];
    std::int16_t low[2];
  };

  /// `width`: of the rows.
  PairedWeights(const Weights& weights, int width);

  std::size_t count() const {
    return offsets_.size();
  }  ///< pixels, from the first on, whose loads stay in the row
  int pairs() const { return pairs_; }
  const int* offsets() const { return offsets_.data(); }  ///< of the first byte in the row
  const Pair* values() const { return values_.data(); }

 private:
  int pairs_ = 1;
  std::vector<int> offsets_;
  std::vector<Pair> values_;
};

/// Makes rows of `width` pixels into rows of weights.ranges.size() pixels.
class RowResizer {
 public:
  RowResizer(Weights weights, int width, int channels);

  const Weights& weights() const { return weights_; }
  /// Two at once, which may be the same.
  void resize(const std::uint8_t* upper, const std::uint8_t* lower, std::uint8_t* to_upper,
              std::uint8_t* to_lower) const;

 private:
  Weights weights_;
  int channels_;
  std::optional<PairedWeights> paired_;  ///< where instructions for it are there
};

}  // namespace lockstep::data
