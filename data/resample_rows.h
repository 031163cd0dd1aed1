#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "data/picture.h"

namespace lockstep::data {

inline constexpr int precision_bits = 22;  // 32 less 8 of a pixel and 2 of headroom
inline constexpr std::int32_t one_half = 1 << (precision_bits - 1);

/// Which pixels make each pixel of a line, with their weights in units of 2^-precision_bits.
struct Weights {
  struct Range {
    int first = 0;
    int count = 0;
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

/// Every row of `view` made into one of `width` pixels.
Picture resize_rows(const PictureView& view, const Weights& weights, int width);

}  // namespace lockstep::data
