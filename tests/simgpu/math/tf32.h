#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace simgpu {

/// To ten bits of mantissa, to the nearest, ties to even. Hardware that truncates or rounds ties away differs
/// by one unit of the last of these bits at most. Infinities and NaN stay what they are.
inline float rounded_to_tf32(float value) {
  constexpr std::uint32_t dropped = 0x1fff;
  constexpr std::uint32_t exponent = 0x7f800000;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & exponent) == exponent) return value;
  const std::uint32_t half = dropped / 2 + ((bits >> 13U) & 1U);
  return std::bit_cast<float>((bits + half) & ~dropped);
}

inline std::vector<float> rounded_to_tf32(std::span<const float> values) {
  std::vector<float> rounded(values.size());
  std::ranges::transform(values, rounded.begin(), [](float value) { return rounded_to_tf32(value); });
  return rounded;
}

}  // namespace simgpu
