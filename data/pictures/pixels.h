#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "data/pictures/picture.h"

namespace lockstep::data {

/// What each value of a byte becomes: (value / 255 - mean) / deviation. With 0 and 1 that is
/// float(value) / 255.0f, as torchvision's ToTensor, to the bit.
struct PixelScale {
  constexpr PixelScale(float its_mean, float its_deviation);
  constexpr bool is_plain() const { return mean == 0.0F && deviation == 1.0F; }

  float mean;
  float deviation;
  std::array<float, 256> table{};
};

/// A row of pixels as floats, with `plane` floats from one channel's to the next; `mirrored`: left and right
/// swapped. `scales`: one a channel, or one for all; none: the plain one.
void row_to_floats(const std::uint8_t* pixels, int width, int channels, bool mirrored,
                   std::span<const PixelScale> scales, float* out, std::ptrdiff_t plane);

/// The pixels of `view` as floats, from HWC to CHW.
void to_floats(const PictureView& view, bool mirrored, std::span<const PixelScale> scales,
               std::span<float> out);

/// float(pixel) / 255.0f to the bit without a division: 1/255 as the sum of a part with 16 bits, whose
/// product with a pixel is exact, and the rest.
constexpr float unit_float(std::uint8_t pixel) {
  constexpr float high = 0x8081p-23f;
  constexpr float low = static_cast<float>(1.0 / 255 - static_cast<double>(high));
  const auto value = static_cast<float>(pixel);
  return value * high + value * low;
}

constexpr PixelScale::PixelScale(float its_mean, float its_deviation)
    : mean(its_mean), deviation(its_deviation) {
  for (std::size_t value = 0; value < table.size(); ++value)
    table[value] = (unit_float(static_cast<std::uint8_t>(value)) - mean) / deviation;
}

}  // namespace lockstep::data
