#include "kernels/rms_norm.h"

#include "kernels/cpu/simd/math.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {

void run(const RmsNorm& op, const NormRows& rows, const float* x, const float* weight, float* y,
         float* rstd) {
  const std::int64_t columns = rows.columns;
  const auto count = static_cast<float>(columns);
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const float* const from = x + row * columns;
    float* const to = y + row * columns;
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (std::int64_t k = 0; k < columns; ++k) squares += from[k] * from[k];
    const float scale = Math::rsqrt(squares / count + static_cast<float>(op.eps));
#pragma omp simd
    for (std::int64_t k = 0; k < columns; ++k) to[k] = from[k] * scale * weight[k];
    rstd[row] = scale;
  }
}

/// With n = x * rstd and g = dy * weight: dx = rstd * (g - n * mean of (g * n)).
void run(const RmsNormBackward&, const NormRows& rows, const float* dy, const float* x, const float* weight,
         const float* rstd, float* dx, float* sums) {
  const std::int64_t columns = rows.columns;
  const auto count = static_cast<float>(columns);
  for (std::int64_t k = 0; k < columns; ++k) sums[k] = 0;
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const float* const in = x + row * columns;
    const float* const gradient = dy + row * columns;
    float* const out = dx + row * columns;
    const float scale = rstd[row];
    float along = 0;
#pragma omp simd reduction(+ : along)
    for (std::int64_t k = 0; k < columns; ++k) along += gradient[k] * weight[k] * (in[k] * scale);
    const float slope = along / count;
#pragma omp simd
    for (std::int64_t k = 0; k < columns; ++k) {
      const float n = in[k] * scale;
      out[k] = scale * (gradient[k] * weight[k] - n * slope);
      sums[k] += gradient[k] * n;
    }
  }
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
