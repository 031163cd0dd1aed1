#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace lockstep {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

constexpr int philox_rounds = 10;

constexpr PhiloxCounter philox_round(PhiloxCounter counter, PhiloxKey key) {
  const std::uint64_t product0 = std::uint64_t{0xD2511F53u} * counter[0];
  const std::uint64_t product1 = std::uint64_t{0xCD9E8D57u} * counter[2];
  return {
      static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(product1),
      static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(product0)};
}

/// The key of the next round.
constexpr PhiloxKey philox_next(PhiloxKey key) {
  return {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
}

/// Philox4x32-10: a keyed bijection of 128-bit counters whose images pass as random (Salmon, Moraes, Dror,
/// Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
constexpr PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < philox_rounds; ++round) {
    counter = philox_round(counter, key);
    key = philox_next(key);
  }
  return counter;
}

/// Random numbers by position: number `index` of a (seed, stream) is the same whoever asks, and in any order.
/// Blocks of four words come from the counter (block, stream) under the key `seed`.
class Philox {
 public:
  constexpr Philox(std::uint64_t seed, std::uint64_t stream)
      : key_{low(seed), high(seed)}, stream_{low(stream), high(stream)} {}

  constexpr PhiloxKey key() const { return key_; }
  constexpr PhiloxCounter counter(std::uint64_t block) const {
    return {low(block), high(block), stream_[0], stream_[1]};
  }

  constexpr PhiloxCounter block(std::uint64_t index) const { return philox4x32(counter(index), key_); }

  constexpr std::uint32_t bits(std::uint64_t index) const { return block(index / 4)[index % 4]; }

  /// In [0, 1), a multiple of 2^-24.
  constexpr float uniform(std::uint64_t index) const { return to_uniform(bits(index)); }

  /// In [0, bound) without a division (Lemire's multiplication); the bias is below bound / 2^32.
  constexpr std::uint32_t below(std::uint32_t bound, std::uint64_t index) const {
    return static_cast<std::uint32_t>(std::uint64_t{bits(index)} * bound >> 32);
  }

  /// out[i] = uniform(first + i).
  void uniforms(std::uint64_t first, std::span<float> out) const;

  /// Standard normals by Box and Muller: numbers first, first + 1, ... of a sequence that is parallel to that
  /// of the uniforms (normal 2k and 2k + 1 are made of words 2k and 2k + 1). The bits are the same on every
  /// x86-64.
  void normals(std::uint64_t first, std::span<float> out) const;

  static constexpr float to_uniform(std::uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

 private:
  static constexpr std::uint32_t low(std::uint64_t word) { return static_cast<std::uint32_t>(word); }
  static constexpr std::uint32_t high(std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); }

  PhiloxKey key_;
  PhiloxKey stream_;
};

}  // namespace lockstep
