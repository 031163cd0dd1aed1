#pragma once

#include "kernels/classifier.h"
#include "kernels/cpu/simd/math.h"

/// What is summed and counted over a row of a block.
namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

/// How many of [begin, end) stand before a class with the logit `hit`; of equal ones the first does.
std::int32_t count_before(const float* x, std::int64_t begin, std::int64_t end, float hit, bool behind) {
  std::int32_t before = 0;  // as wide as the numbers: a lane each
  if (behind) {
#pragma omp simd reduction(+ : before)
    for (std::int64_t k = begin; k < end; ++k) before += x[k] > hit ? 1 : 0;
  } else {
#pragma omp simd reduction(+ : before)
    for (std::int64_t k = begin; k < end; ++k) before += x[k] >= hit ? 1 : 0;
  }
  return before;
}

void count_before(const ClassifierBlock& block, const float* x, ClassifierRow& row) {
  const std::int64_t target = row.target - block.first;
  const std::int64_t split = target < 0 ? 0 : target > block.columns ? block.columns : target;
  row.before += count_before(x, 0, split, row.hit, false);
  const std::int64_t behind = target >= 0 && target < block.columns ? split + 1 : split;
  row.before += count_before(x, behind, block.columns, row.hit, true);
}

/// `bias` of all classes, or null.
inline void add_bias(const ClassifierBlock& block, const float* bias, float* x) {
  if (bias == nullptr) return;
#pragma omp simd
  for (std::int64_t k = 0; k < block.columns; ++k) x[k] += bias[block.first + k];
}

inline float greatest(const float* x, std::int64_t count, float least) {
  float peak = least;
#pragma omp simd reduction(max : peak)
  for (std::int64_t k = 0; k < count; ++k) peak = x[k] > peak ? x[k] : peak;
  return peak;
}

struct Exponentials {
  float total;   ///< of e^(x - peak)
  float sum;     ///< of x - peak
  float broken;  ///< how many x are no number, or the infinite peak
};

/// `keep(k, e^(x[k] - peak))` for each.
template <class Keep>
[[gnu::always_inline]] inline Exponentials exponentials(const float* x, std::int64_t count, float peak,
                                                        const Keep& keep) {
  float total = 0;
  float sum = 0;
  float broken = 0;
#pragma omp simd reduction(+ : total, sum, broken)
  for (std::int64_t k = 0; k < count; ++k) {
    const float difference = x[k] - peak;
    const float exponential = Math::exp_negative(difference);
    keep(k, exponential);
    total += exponential;
    sum += difference;
    broken += difference != difference ? 1.0F : 0.0F;
  }
  return {total, sum, broken};
}

}  // namespace
}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
