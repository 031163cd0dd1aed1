#pragma once

#include "kernels/classifier.h"
#include "kernels/cpu/simd/isa.h"

/// Which place the target has among the classes of a block.
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

}  // namespace
}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
