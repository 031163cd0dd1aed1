#include "kernels/gradient_norm.h"

#include "kernels/cpu/simd/isa.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {

/// In lanes of its own, not the vector's: the same order on every instruction set.
double run(const GradientNorm&, const float* x, std::int64_t n) {
  constexpr std::int64_t lanes = 16;
  double sums[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
#pragma omp simd
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      const double value = x[i + lane];
      sums[lane] += value * value;
    }
  }
  double sum = 0;
  for (; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  for (const double lane : sums) sum += lane;
  return sum;
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
