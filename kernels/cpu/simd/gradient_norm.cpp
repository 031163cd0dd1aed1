#include "kernels/gradient_norm.h"

#include "kernels/cpu/simd/math.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {

namespace {

/// GradScaler looks for infinite gradients before they are clipped.
float counted(float gradient, float limit, bool keeps_infinite) {
  return keeps_infinite && gradient - gradient != 0 ? gradient : clipped(gradient, limit);
}

}  // namespace

/// In lanes of its own, not the vector's: the same order on every instruction set.
double run(const GradientNorm& op, float limit, const float* x, std::int64_t n) {
  constexpr std::int64_t lanes = 16;
  double sums[lanes] = {};
  const bool keeps_infinite = op.growth_interval > 0;
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
#pragma omp simd
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      const double value = counted(x[i + lane], limit, keeps_infinite);
      sums[lane] += value * value;
    }
  }
  double sum = 0;
  for (; i < n; ++i) {
    const double value = counted(x[i], limit, keeps_infinite);
    sum += value * value;
  }
  for (const double lane : sums) sum += lane;
  return sum;
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
