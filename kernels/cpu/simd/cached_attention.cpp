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

/// Into the first cache, while other numbers are computed with. What lies there need not exist.
[[gnu::always_inline]] inline void prefetch(const float* from, std::int64_t size) {
  constexpr std::int64_t line = 16;
  for (std::int64_t i = 0; i < size; i += line) __builtin_prefetch(from + i);
}

/// Where the entries of a head lie in a cache.
struct Entries {
  std::int64_t count, size;
  std::int64_t first;            ///< element of the first, if they are one behind another
  const std::int64_t* rows;      ///< else the row of each
  std::int64_t in_row, of_head;  ///< elements of a row, and to its head
  bool in_memory;                ///< a single query reads them, so no cache has them

  [[gnu::always_inline]] std::int64_t operator[](std::int64_t entry) const {
    return (rows == nullptr ? first : rows[entry] * in_row + of_head) + entry * size;
  }
};

/// y += the values at these places, each times its factor. Four at a time, so that y is read and written
/// less.
[[gnu::always_inline]] inline void add_values(const float* factors, const float* values,
                                              const std::int64_t* places, std::int64_t count,
                                              std::int64_t size, float* y) {
  std::int64_t j = 0;
  for (; j + 4 <= count; j += 4) {
    const float* const a = values + places[j];
    const float* const b = values + places[j + 1];
    const float* const c = values + places[j + 2];
    const float* const d = values + places[j + 3];
#pragma omp simd
    for (std::int64_t i = 0; i < size; ++i) {
      y[i] += (factors[j] * a[i] + factors[j + 1] * b[i]) + (factors[j + 2] * c[i] + factors[j + 3] * d[i]);
    }
  }
  for (; j < count; ++j) {
    const float* const value = values + places[j];
#pragma omp simd
    for (std::int64_t i = 0; i < size; ++i) y[i] += factors[j] * value[i];
  }
}

/// Softmax as it goes: `y` holds the sum of the values times exp(score - greatest) so far, `total` that of
/// the factors (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018).
[[gnu::always_inline]] inline void attend(float factor, const float* q, const float* keys,
                                          const float* values, const Entries& entries, float* y) {
  const std::int64_t size = entries.size;
  for (std::int64_t i = 0; i < size; ++i) y[i] = 0;
  float greatest = -__builtin_inff();
  float total = 0;
  alignas(64) float scores[tile];
  std::int64_t places[tile];
  for (std::int64_t first = 0; first < entries.count; first += tile) {
    const std::int64_t count = entries.count - first < tile ? entries.count - first : tile;
    float of_tile = greatest;
    for (std::int64_t j = 0; j < count; ++j) {
      places[j] = entries[first + j];
      if (entries.in_memory) prefetch(values + places[j], size);
      scores[j] = dot(q, keys + places[j], size) * factor;
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
    for (std::int64_t j = first + tile; entries.in_memory && j < first + 2 * tile && j < entries.count; ++j)
      prefetch(keys + entries[j], size);
    add_values(scores, values, places, count, size, y);
  }
#pragma omp simd
  for (std::int64_t i = 0; i < size; ++i) y[i] /= total;
}

}  // namespace

void run(const CachedAttention& op, const CachedQueries& queries, const float* q, const std::int64_t* last,
         const float* keys, const float* values, const std::int64_t* rows, float* y) {
  const std::int64_t size = queries.head_size;
  const std::int64_t in_head = queries.capacity * size;
  const auto factor = static_cast<float>(op.scale);
  for (std::int64_t at = queries.begin; at < queries.end; ++at) {
    const std::int64_t of_head = at / queries.tokens;  // row * heads + head
    const std::int64_t row = of_head / queries.heads;
    const std::int64_t head = of_head % queries.heads;
    const std::int64_t token = row * queries.tokens + at % queries.tokens;
    const std::int64_t element = (token * queries.heads + head) * size;
    const std::int64_t known = last[token] + 1;
    const Entries entries{.count = known < queries.capacity ? known : queries.capacity,
                          .size = size,
                          .first = of_head * in_head,
                          .rows = rows == nullptr ? nullptr : rows + row * queries.capacity,
                          .in_row = queries.heads * in_head,
                          .of_head = head * in_head,
                          .in_memory = queries.tokens == 1};
    if (entries.count > 0) {
      attend(factor, q + element, keys, values, entries, y + element);
    } else {
      for (std::int64_t i = 0; i < size; ++i) y[element + i] = 0;
    }
  }
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
