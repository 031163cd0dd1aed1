#include "kernels/base/philox.h"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace lockstep {
namespace {

constexpr std::size_t chunk = 256;  // words made at a time: in L1, long enough for vector loops

/// -2 ln(u) for u in (0, 1], by the atanh series around the mantissa; relative error below 1e-6.
/// Ours and not the C library's, whose bits differ from machine to machine.
float minus_two_log(float u) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(u);
  constexpr std::uint32_t sqrt_half = 0x3F3504F3u;
  const std::int32_t exponent = static_cast<std::int32_t>(bits - sqrt_half) >> 23;
  const float mantissa = std::bit_cast<float>(bits - (static_cast<std::uint32_t>(exponent) << 23));
  const float s = (mantissa - 1.0f) / (mantissa + 1.0f);
  const float s2 = s * s;
  const float series =
      2.0f * s * (1.0f + s2 * (1.0f / 3 + s2 * (1.0f / 5 + s2 * (1.0f / 7 + s2 * (1.0f / 9)))));
  return -2.0f * (static_cast<float>(exponent) * 0.693147180559945f + series);
}

/// Sine and cosine of 2 pi t for t in [0, 1): the nearest quarter turn, then Taylor's series within pi / 4.
void sin_cos_of_turn(float t, float& sine, float& cosine) {
  const auto quarter = static_cast<std::int32_t>(t * 4.0f + 0.5f);
  const float x = (t - static_cast<float>(quarter) * 0.25f) * 6.283185307179586f;
  const float x2 = x * x;
  const float s = x * (1.0f + x2 * (-1.0f / 6 + x2 * (1.0f / 120 + x2 * (-1.0f / 5040))));
  const float c = 1.0f + x2 * (-0.5f + x2 * (1.0f / 24 + x2 * (-1.0f / 720 + x2 * (1.0f / 40320))));
  const float sine_sign = static_cast<float>(1 - (quarter & 2));
  const float cosine_sign = static_cast<float>(1 - ((quarter + 1) & 2));
  sine = sine_sign * ((quarter & 1) != 0 ? c : s);
  cosine = cosine_sign * ((quarter & 1) != 0 ? s : c);
}

/// `chunk` words from block `first` on, with a lane for each block so that the loops are vectorised.
void fill_words(const Philox& random, std::uint64_t first, std::uint32_t* out) {
  constexpr std::size_t lanes = chunk / 4;
  std::uint32_t lane[4][lanes];
  for (std::size_t i = 0; i < lanes; ++i) {
    const PhiloxCounter counter = random.counter(first + i);
    for (std::size_t word = 0; word < 4; ++word) lane[word][i] = counter[word];
  }
  PhiloxKey key = random.key();
  for (int round = 0; round < philox_rounds; ++round) {
    for (std::size_t i = 0; i < lanes; ++i) {
      const PhiloxCounter next = philox_round({lane[0][i], lane[1][i], lane[2][i], lane[3][i]}, key);
      for (std::size_t word = 0; word < 4; ++word) lane[word][i] = next[word];
    }
    key = philox_next(key);
  }
  for (std::size_t i = 0; i < lanes; ++i) {
    for (std::size_t word = 0; word < 4; ++word) out[4 * i + word] = lane[word][i];
  }
}

}  // namespace

void Philox::uniforms(std::uint64_t first, std::span<float> out) const {
  std::uint32_t word[chunk];
  for (std::size_t done = 0; done < out.size();) {
    const std::size_t skip = (first + done) % 4;
    const std::size_t count = std::min(chunk - skip, out.size() - done);
    fill_words(*this, (first + done) / 4, word);
    for (std::size_t i = 0; i < count; ++i) out[done + i] = to_uniform(word[skip + i]);
    done += count;
  }
}

void Philox::normals(std::uint64_t first, std::span<float> out) const {
  std::uint32_t word[chunk];
  float sine[chunk / 2], cosine[chunk / 2], normal[chunk];
  for (std::size_t done = 0; done < out.size();) {
    const std::size_t skip = (first + done) % 4;
    const std::size_t count = std::min(chunk - skip, out.size() - done);
    fill_words(*this, (first + done) / 4, word);
    for (std::size_t i = 0; i < chunk / 2; ++i) {
      const float radius = __builtin_sqrtf(minus_two_log(1.0f - to_uniform(word[2 * i])));
      sin_cos_of_turn(to_uniform(word[2 * i + 1]), sine[i], cosine[i]);
      sine[i] *= radius;
      cosine[i] *= radius;
    }
    for (std::size_t i = 0; i < chunk / 2; ++i) {
      normal[2 * i] = cosine[i];
      normal[2 * i + 1] = sine[i];
    }
    std::copy_n(normal + skip, count, out.begin() + static_cast<std::ptrdiff_t>(done));
    done += count;
  }
}

}  // namespace lockstep
