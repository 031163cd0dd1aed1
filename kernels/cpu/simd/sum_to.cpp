#include "kernels/sum_to.h"

#include "kernels/cpu/simd/isa.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {

void run(const SumTo&, const SumRun& run, const float* x, float* y) {
  if (!run.to_one) {
#pragma omp simd
    for (std::int64_t i = 0; i < run.n; ++i) y[i] += x[i];
    return;
  }
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < run.n; ++i) sum += x[i];
  *y += sum;
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
