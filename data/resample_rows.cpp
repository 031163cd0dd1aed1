#include "data/resample_rows.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

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

/// The weights of RGB pixels by pairs of neighbours, each weight as high * 2^low_bits + low: the products of
/// 16 bits that this needs are exact, so the sums are those of resize_row.
class PairedWeights {
 public:
  static constexpr int low_bits = 11;
  static constexpr int bytes_loaded = 8;  ///< for a pair, which has 6

  struct Pair {
    std::int16_t high[2];
    std::int16_t low[2];
  };

  PairedWeights(const Weights& weights, int width) {
    for (const Weights::Range& range : weights.ranges) pairs_ = std::max(pairs_, (range.count + 1) / 2);
    const auto bytes_of_pixel = [&](const Weights::Range& range) {
      return 3 * range.first + 6 * (pairs_ - 1) + bytes_loaded;
    };
    // A pixel is stored with a byte that is not its own, so the last one is left out too.
    while (count_ + 1 < weights.ranges.size() && bytes_of_pixel(weights.ranges[count_]) <= 3 * width)
      ++count_;
    for (std::size_t x = 0; x < count_; ++x) {
      offsets_.push_back(3 * weights.ranges[x].first);
      for (int i = 0; i < 2 * pairs_; i += 2) {
        const std::int32_t left = weights.of(x)[i];
        const std::int32_t right = i + 1 < weights.most ? weights.of(x)[i + 1] : 0;
        values_.push_back({{high_of(left), high_of(right)}, {low_of(left), low_of(right)}});
      }
    }
  }

  std::size_t count() const { return count_; }  ///< pixels, from the first on, whose loads stay in the row
  int pairs() const { return pairs_; }
  const int* offsets() const { return offsets_.data(); }
  const Pair* values() const { return values_.data(); }

 private:
  static std::int16_t high_of(std::int32_t weight) { return static_cast<std::int16_t>(weight >> low_bits); }
  static std::int16_t low_of(std::int32_t weight) {
    return static_cast<std::int16_t>(weight & ((1 << low_bits) - 1));
  }

  int pairs_ = 1;
  std::size_t count_ = 0;
  std::vector<int> offsets_;  ///< of the first byte in the row
  std::vector<Pair> values_;
};

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

void resize_rgb_rows_avx2(const PictureView& view, const Weights& weights, Picture& result) {
  const PairedWeights paired(weights, view.size.width);
  for (int y = 0; y < view.size.height; y += 2) {
    const int next = std::min(y + 1, view.size.height - 1);
    resize_two_rows(view.row(y), view.row(next), paired, result.row(y), result.row(next));
    for (const int row : {y, next}) resize_row<3>(view.row(row), weights, paired.count(), result.row(row));
  }
}

}  // namespace

Picture resize_rows(const PictureView& view, const Weights& weights, int width) {
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  Picture result({width, view.size.height}, view.channels);
  if (view.channels == 3 && has_avx2) {
    resize_rgb_rows_avx2(view, weights, result);
    return result;
  }
  for (int y = 0; y < view.size.height; ++y) {
    if (view.channels == 1) resize_row<1>(view.row(y), weights, 0, result.row(y));
    if (view.channels == 3) resize_row<3>(view.row(y), weights, 0, result.row(y));
  }
  return result;
}

}  // namespace lockstep::data
