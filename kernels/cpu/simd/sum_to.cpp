#include "kernels/sum_to.h"

#include "kernels/cpu/simd/math.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

/// Sums at a time, so that they stay in the first cache.
constexpr std::int64_t block = 64;

template <class Element>
void add_to_one(const SumRun& run, const Element* x, float* sums) {
  for (std::int64_t r = 0; r < run.runs; ++r) {
    const Element* const from = x + r * run.x_step;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < run.n; ++i) sum += load(from + i);
    sums[r * run.y_step] += sum;
  }
}

/// Each element to its own sum, and all runs to the same ones.
template <class Element>
void add_rows(const SumRun& run, const Element* x, float* sums) {
  for (std::int64_t first = 0; first < run.n; first += block) {
    const std::int64_t n = run.n - first < block ? run.n - first : block;
    float partial[block] = {};
    for (std::int64_t r = 0; r < run.runs; ++r) {
      const Element* const from = x + r * run.x_step + first;
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) partial[i] += load(from + i);
    }
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) sums[first + i] += partial[i];
  }
}

template <class Element>
void add(const SumRun& run, const Element* x, float* sums) {
  if (run.to_one) return add_to_one(run, x, sums);
  if (run.y_step == 0) return add_rows(run, x, sums);
  for (std::int64_t r = 0; r < run.runs; ++r) {
#pragma omp simd
    for (std::int64_t i = 0; i < run.n; ++i) sums[r * run.y_step + i] += load(x + r * run.x_step + i);
  }
}

}  // namespace

void run(const SumTo&, const SumRun& run, const void* x, float* sums) {
  if (run.dtype == DType::bf16) return add(run, static_cast<const Bf16*>(x), sums);
  add(run, static_cast<const float*>(x), sums);
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
