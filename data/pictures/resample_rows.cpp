#include "data/pictures/resample_rows.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "kernels/base/division.h"

namespace lockstep::data {
namespace {

/// From pixel `x` on.
template <int channels>
void resize_row(const std::uint8_t* from, const Weights& weights, std::size_t x, std::uint8_t* to) {
  for (to += x * channels; x < weights.ranges.size(); ++x) {
    const auto [first, count] = weights.ranges[x];
    const std::int32_t* values = weights.of(x);
    const std::uint8_t* at = from + std::ptrdiff_t{first} * channels;
    std::int32_t sums[channels];
    std::fill_n(sums, channels, one_half);
    for (int i = 0; i < count; ++i, at += channels) {
      for (int c = 0; c < channels; ++c) sums[c] += values[i] * at[c];
    }
    for (int c = 0; c < channels; ++c) *to++ = to_byte(sums[c]);
  }
}

[[gnu::target("avx2")]] inline __m256i load_pairs(const std::uint8_t* upper, const std::uint8_t* lower) {
  // Two pixels r g b r g b to r r g g b b, in 16 bits each.
  const __m256i spread =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1));
  const __m128i one = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(upper));
  const __m128i other = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(lower));
  return _mm256_shuffle_epi8(_mm256_set_m128i(other, one), spread);
}

[[gnu::target("avx2")]] inline __m256i weights_of(const std::int16_t (&pair)[2]) {
  std::int32_t both = 0;
  std::memcpy(&both, pair, sizeof both);
  return _mm256_set1_epi32(both);
}

/// The pixels of two rows that `weights` counts.
[[gnu::target("avx2")]] void resize_two_rows(const std::uint8_t* upper, const std::uint8_t* lower,
                                             const PairedWeights& weights, std::uint8_t* to_upper,
                                             std::uint8_t* to_lower) {
  const PairedWeights::Pair* pair = weights.values();
  for (std::size_t x = 0; x < weights.count(); ++x) {
    int at = weights.offsets()[x];
    __m256i high = _mm256_setzero_si256();
    __m256i low = _mm256_set1_epi32(one_half);
    for (int i = 0; i < weights.pairs(); ++i, ++pair, at += 6) {
      const __m256i pixels = load_pairs(upper + at, lower + at);
      high = _mm256_add_epi32(high, _mm256_madd_epi16(pixels, weights_of(pair->high)));
      low = _mm256_add_epi32(low, _mm256_madd_epi16(pixels, weights_of(pair->low)));
    }
    const __m256i sums = _mm256_add_epi32(low, _mm256_slli_epi32(high, PairedWeights::low_bits));
    const __m256i words = _mm256_packs_epi32(_mm256_srai_epi32(sums, precision_bits), sums);
    const __m256i bytes = _mm256_packus_epi16(words, words);
    const int one = _mm256_extract_epi32(bytes, 0);
    const int other = _mm256_extract_epi32(bytes, 4);
    std::memcpy(to_upper + 3 * x, &one, sizeof one);
    std::memcpy(to_lower + 3 * x, &other, sizeof other);
  }
}

std::int16_t high_of(std::int32_t weight) {
  return static_cast<std::int16_t>(weight >> PairedWeights::low_bits);
}

std::int16_t low_of(std::int32_t weight) {
  return static_cast<std::int16_t>(weight & ((1 << PairedWeights::low_bits) - 1));
}

}  // namespace

PairedWeights::PairedWeights(const Weights& weights, int width) {
  for (const Weights::Range& range : weights.ranges) pairs_ = std::max(pairs_, parts_of(range.count, 2));
  const auto bytes_end = [&](const Weights::Range& range) {
    return 3 * range.first + 6 * (pairs_ - 1) + bytes_loaded;
  };
  // A pixel is stored with a byte that is not its own, so the last one is left out too.
  std::size_t count = 0;
  while (count + 1 < weights.ranges.size() && bytes_end(weights.ranges[count]) <= 3 * width) ++count;
  offsets_.reserve(count);
  values_.reserve(count * static_cast<std::size_t>(pairs_));
  for (std::size_t x = 0; x < count; ++x) {
    offsets_.push_back(3 * weights.ranges[x].first);
    for (int i = 0; i < 2 * pairs_; i += 2) {
      const std::int32_t left = i < weights.most ? weights.of(x)[i] : 0;
      const std::int32_t right = i + 1 < weights.most ? weights.of(x)[i + 1] : 0;
      values_.push_back({{high_of(left), high_of(right)}, {low_of(left), low_of(right)}});
    }
  }
}

RowResizer::RowResizer(Weights weights, int width, int channels)
    : weights_(std::move(weights)), channels_(channels) {
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  if (channels == 3 && has_avx2) paired_.emplace(weights_, width);
}

void RowResizer::resize(const std::uint8_t* upper, const std::uint8_t* lower, std::uint8_t* to_upper,
                        std::uint8_t* to_lower) const {
  std::size_t done = 0;
  if (paired_) {
    resize_two_rows(upper, lower, *paired_, to_upper, to_lower);
    done = paired_->count();
  }
  const auto rest_of = channels_ == 3 ? resize_row<3> : resize_row<1>;
  rest_of(upper, weights_, done, to_upper);
  if (lower != upper) rest_of(lower, weights_, done, to_lower);
}

}  // namespace lockstep::data
