#include "kernels/cached_attention.h"

#include "kernels/cpu/simd/math.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

/// Entries whose scores are computed before their values are added.
constexpr std::int64_t tile = 64;

[[gnu::always_inline]] inline float dot(const float* a, const float* b, std::int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

/// y += the values, each times its factor. Four at a time, so that y is read and written less.
[[gnu::always_inline]] inline void add_values(const float* factors, const float* values, std::int64_t count,
                                              std::int64_t size, float* y) {
  std::int64_t j = 0;
  for (; j + 4 <= count; j += 4) {
    const float* const value = values + j * size;
    const float a = factors[j];
    const float b = factors[j + 1];
    const float c = factors[j + 2];
    const float d = factors[j + 3];
#pragma omp simd
    for (std::int64_t i = 0; i < size; ++i) {
      y[i] += (a * value[i] + b * value[size + i]) + (c * value[2 * size + i] + d * value[3 * size + i]);
    }
  }
  for (; j < count; ++j) {
    const float* const value = values + j * size;
#pragma omp simd
    for (std::int64_t i = 0; i < size; ++i) y[i] += factors[j] * value[i];
  }
}

/// Softmax as it goes: `y` holds the sum of the values times exp(score - greatest) so far, `total` that of
/// the factors (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018).
[[gnu::always_inline]] inline void attend(float factor, const float* q, const float* keys,
                                          const float* values, std::int64_t entries, std::int64_t size,
                                          float* y) {
  for (std::int64_t i = 0; i < size; ++i) y[i] = 0;
  float greatest = -__builtin_inff();
  float total = 0;
  alignas(64) float scores[tile];
  for (std::int64_t first = 0; first < entries; first += tile) {
    const std::int64_t count = entries - first < tile ? entries - first : tile;
    float of_tile = greatest;
    for (std::int64_t j = 0; j < count; ++j) {
      scores[j] = dot(q, keys + (first + j) * size, size) * factor;
      of_tile = scores[j] > of_tile ? scores[j] : of_tile;
    }
    const float shrink = greatest == of_tile ? 1.0F : Math::exp(greatest - of_tile);
    greatest = of_tile;
    total *= shrink;
#pragma omp simd
    for (std::int64_t i = 0; i < size; ++i) y[i] *= shrink;
#pragma omp simd
    for (std::int64_t j = 0; j < count; ++j) scores[j] = Math::exp(scores[j] - greatest);
    for (std::int64_t j = 0; j < count; ++j) total += scores[j];
    add_values(scores, values + first * size, count, size, y);
  }
#pragma omp simd
  for (std::int64_t i = 0; i < size; ++i) y[i] /= total;
}

}  // namespace

void run(const CachedAttention& op, const CachedQueries& queries, const float* q, const std::int64_t* last,
         const float* keys, const float* values, float* y) {
  const std::int64_t size = queries.head_size;
  const auto factor = static_cast<float>(op.scale);
  for (std::int64_t at = queries.begin; at < queries.end; ++at) {
    const std::int64_t of_head = at / queries.tokens;  // row * heads + head
    const std::int64_t row = of_head / queries.heads;
    const std::int64_t head = of_head % queries.heads;
    const std::int64_t token = row * queries.tokens + at % queries.tokens;
    const std::int64_t element = (token * queries.heads + head) * size;
    const std::int64_t cache = of_head * queries.capacity * size;
    std::int64_t entries = last[token] + 1;
    entries = entries < queries.capacity ? entries : queries.capacity;
    if (entries > 0) {
      attend(factor, q + element, keys + cache, values + cache, entries, size, y + element);
    } else {
      for (std::int64_t i = 0; i < size; ++i) y[element + i] = 0;
    }
  }
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
