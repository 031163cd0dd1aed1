#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

/// Numbers that both sides of a parity test compute for themselves (specified in README.md; Python:
/// formula.py).
namespace lockstep::parity {

/// 64-bit FNV-1a.
constexpr std::uint64_t fnv1a(std::string_view name) {
  std::uint64_t value = 0xCBF29CE484222325U;
  for (const char c : name) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  return value;
}

/// Output `index` (from 0) of splitmix64 seeded with `seed`.
constexpr std::uint64_t word(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t z = seed + (index + 1) * 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

/// Values in [-scale, scale): 24 bits, so that every step but the last product is exact.
inline std::vector<float> uniform(std::string_view name, std::size_t count, float scale) {
  const std::uint64_t seed = fnv1a(name);
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto centred = static_cast<std::int32_t>(word(seed, i) >> 40) - (1 << 23);
    values[i] = static_cast<float>(centred) * 0x1p-23F * scale;
  }
  return values;
}

/// Values in [0, bound).
inline std::vector<std::int64_t> integers(std::string_view name, std::size_t count, std::int64_t bound) {
  const std::uint64_t seed = fnv1a(name);
  std::vector<std::int64_t> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<std::int64_t>(word(seed, i) >> 33) % bound;
  }
  return values;
}

}  // namespace lockstep::parity
