#include "kernels/base/philox.h"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace lockstep {
namespace {

constexpr std::size_t kChunk = 256;  // words made at a time: in L1, long enough for vector loops

/// -2 ln(u) for u in (0, 1], by the atanh series around the mantissa; relative error below 1e-6.
/// Ours and not the C library's, whose bits differ from machine to machine.
float minus_two_log(float u) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(u);
  constexpr std::uint32_t kSqrtHalf = 0x3F3504F3u;
  const std::int32_t exponent = static_cast<std::int32_t>(bits - kSqrtHalf) >> 23;
  const float mantissa = std::bit_cast<float>(bits - (static_cast<std::uint32_t>(exponent) << 23));
  const float s = (mantissa - 1.0f) / (mantissa + 1.0f);
  const float s2 = s * s;
  const float series =
      2.0f * s * (1.0f + s2 * (1.0f / 3 + s2 * (1.0f / 5 + s2 * (1.0f / 7 + s2 * (1.0f / 9)))));
  return -2.0f * (static_cast<float>(exponent) * 0.693147180559945f + series);
}

struct SinCos {
  float sin, cos;
};

/// Sine and cosine of 2 pi t for t in [0, 1): the nearest quarter turn, then Taylor's series within pi / 4.
SinCos sin_cos_of_turn(float t) {
  const auto quarter = static_cast<std::int32_t>(t * 4.0f + 0.5f);
  const float x = (t - static_cast<float>(quarter) * 0.25f) * 6.283185307179586f;
  const float x2 = x * x;
  const float sine = x * (1.0f + x2 * (-1.0f / 6 + x2 * (1.0f / 120 + x2 * (-1.0f / 5040))));
  const float cosine = 1.0f + x2 * (-0.5f + x2 * (1.0f / 24 + x2 * (-1.0f / 720 + x2 * (1.0f / 40320))));
  const bool odd = (quarter & 1) != 0;
  const float sine_sign = (quarter & 2) != 0 ? -1.0f : 1.0f;
  const float cosine_sign = ((quarter + 1) & 2) != 0 ? -1.0f : 1.0f;
  return {sine_sign * (odd ? cosine : sine), cosine_sign * (odd ? sine : cosine)};
}

}  // namespace

void Philox::words(std::uint64_t first_block, std::span<std::uint32_t> out) const {
  for (std::size_t i = 0; i < out.size() / 4; ++i) {
    const PhiloxCounter word = block(first_block + i);
    std::copy(word.begin(), word.end(), out.begin() + static_cast<std::ptrdiff_t>(4 * i));
  }
}

void Philox::uniforms(std::uint64_t first, std::span<float> out) const {
  std::uint32_t word[kChunk];
  for (std::size_t done = 0; done < out.size();) {
    const std::size_t skip = (first + done) % 4;
    const std::size_t count = std::min(kChunk - skip, out.size() - done);
    words((first + done) / 4, word);
    for (std::size_t i = 0; i < count; ++i) out[done + i] = to_uniform(word[skip + i]);
    done += count;
  }
}

void Philox::normals(std::uint64_t first, std::span<float> out) const {
  std::uint32_t word[kChunk];
  float normal[kChunk];
  for (std::size_t done = 0; done < out.size();) {
    const std::size_t skip = (first + done) % 4;
    const std::size_t count = std::min(kChunk - skip, out.size() - done);
    words((first + done) / 4, word);
    for (std::size_t i = 0; i < kChunk; i += 2) {
      const float radius2 = minus_two_log(1.0f - to_uniform(word[i]));
      const auto [sine, cosine] = sin_cos_of_turn(to_uniform(word[i + 1]));
      const float radius = __builtin_sqrtf(radius2);
      normal[i] = radius * cosine;
      normal[i + 1] = radius * sine;
    }
    std::copy_n(normal + skip, count, out.begin() + static_cast<std::ptrdiff_t>(done));
    done += count;
  }
}

}  // namespace lockstep
