#include "kernels/sum_to.h"

#include "kernels/cpu/simd/math.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

/// Sums at a time, so that they stay in the first cache.
constexpr std::int64_t block = 64;

/// Numbers that are added one after another. Their sums are then added, and the sums of as many of those:
/// rounding grows with the length of such a chain.
constexpr std::int64_t chain = 256;

constexpr std::int64_t least(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}

template <class Element>
void add_to_one(const SumRun& run, const Element* x, float* sums) {
  constexpr std::int64_t piece = 16 * chain;  // of as many lanes
  for (std::int64_t r = 0; r < run.runs; ++r) {
    const Element* const from = x + r * run.x_step;
    float total = 0;
    for (std::int64_t first = 0; first < run.n; first += piece) {
      const std::int64_t end = least(run.n, first + piece);
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t i = first; i < end; ++i) sum += load(from + i);
      total += sum;
    }
    sums[r * run.y_step] += total;
  }
}

/// Adds the sums of a level to those of the next one, and begins anew.
void move_up(float* level, float* next, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    next[i] += level[i];
    level[i] = 0;
  }
}

/// Of `n` numbers side by side in each of `rows`.
template <class Element>
void add_chain(const Element* x, std::int64_t rows, std::int64_t step, std::int64_t n, float* sums) {
  for (std::int64_t r = 0; r < rows; ++r) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) sums[i] += load(x + r * step + i);
  }
}

/// Each element to its own sum, and all runs to the same ones.
template <class Element>
void add_rows(const SumRun& run, const Element* x, float* sums) {
  for (std::int64_t first = 0; first < run.n; first += block) {
    const std::int64_t n = least(run.n - first, block);
    float of_chain[block] = {};
    if (run.runs <= chain) {  // whose sum alone the levels above would have
      add_chain(x + first, run.runs, run.x_step, n, of_chain);
      move_up(of_chain, sums + first, n);
      continue;
    }
    float of_chains[block] = {};
    for (std::int64_t r = 0; r < run.runs; r += chain) {
      add_chain(x + r * run.x_step + first, least(run.runs - r, chain), run.x_step, n, of_chain);
      move_up(of_chain, of_chains, n);
      if ((r + chain) % (chain * chain) == 0) move_up(of_chains, sums + first, n);
    }
    move_up(of_chains, sums + first, n);
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
