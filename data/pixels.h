#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::data {

/// float(pixel) / 255.0f to the bit, as torchvision's ToTensor, without a division: 1/255 as the sum of a
/// part with 16 bits, whose product with a pixel is exact, and the rest.
constexpr float unit_float(std::uint8_t pixel) {
  constexpr float kHigh = 0x8081p-23f;
  constexpr float kLow = static_cast<float>(1.0 / 255 - static_cast<double>(kHigh));
  const auto value = static_cast<float>(pixel);
  return value * kHigh + value * kLow;
}

static_assert([] {
  for (int pixel = 0; pixel < 256; ++pixel) {
    if (unit_float(static_cast<std::uint8_t>(pixel)) != static_cast<float>(pixel) / 255.0f) return false;
  }
  return true;
}());

/// out[i] = pixels[i] / 255 for all of `out`.
inline void to_unit_floats(const std::byte* __restrict pixels, std::span<float> out) {
  float* __restrict unit = out.data();
  for (std::size_t i = 0; i < out.size(); ++i) unit[i] = unit_float(static_cast<std::uint8_t>(pixels[i]));
}

}  // namespace lockstep::data
