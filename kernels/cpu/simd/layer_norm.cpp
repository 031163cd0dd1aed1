#include "kernels/layer_norm.h"

#include "kernels/cpu/simd/math.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {

void run(const LayerNorm& op, const NormRows& rows, const float* x, const float* weight, const float* bias,
         const float* residual, float* y, float* mean, float* rstd, float* total) {
  const std::int64_t columns = rows.columns;
  const auto count = static_cast<float>(columns);
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const float* from = x + row * columns;
    float* const to = y + row * columns;
    if (residual != nullptr) {
      const float* const other = residual + row * columns;
      float* const both = total + row * columns;
#pragma omp simd
      for (std::int64_t k = 0; k < columns; ++k) both[k] = from[k] + other[k];
      from = both;
    }
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t k = 0; k < columns; ++k) sum += from[k];
    const float center = sum / count;
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (std::int64_t k = 0; k < columns; ++k) squares += (from[k] - center) * (from[k] - center);
    const float scale = Math::rsqrt(squares / count + static_cast<float>(op.eps));
    if (bias == nullptr) {
#pragma omp simd
      for (std::int64_t k = 0; k < columns; ++k) to[k] = (from[k] - center) * scale * weight[k];
    } else {
#pragma omp simd
      for (std::int64_t k = 0; k < columns; ++k) to[k] = (from[k] - center) * scale * weight[k] + bias[k];
    }
    mean[row] = center;
    rstd[row] = scale;
  }
}

/// With n = (x - mean) * rstd and g = dy * weight: dx = rstd * (g - mean of g - n * mean of (g * n)).
void run(const LayerNormBackward&, const NormRows& rows, const float* dy, const float* x, const float* weight,
         const float* mean, const float* rstd, const float* dtotal, float* dx, float* sums) {
  const std::int64_t columns = rows.columns;
  const auto count = static_cast<float>(columns);
  float* const dweight = sums;
  float* const dbias = sums + columns;
  for (std::int64_t k = 0; k < 2 * columns; ++k) sums[k] = 0;
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const float* const in = x + row * columns;
    const float* const gradient = dy + row * columns;
    float* const out = dx + row * columns;
    const float center = mean[row];
    const float scale = rstd[row];
    float total = 0;
    float along = 0;
#pragma omp simd reduction(+ : total, along)
    for (std::int64_t k = 0; k < columns; ++k) {
      const float g = gradient[k] * weight[k];
      total += g;
      along += g * ((in[k] - center) * scale);
    }
    const float shift = total / count;
    const float slope = along / count;
#pragma omp simd
    for (std::int64_t k = 0; k < columns; ++k) {
      const float n = (in[k] - center) * scale;
      out[k] = scale * (gradient[k] * weight[k] - shift - n * slope);
      dweight[k] += gradient[k] * n;
      dbias[k] += gradient[k];
    }
    if (dtotal == nullptr) continue;
    const float* const other = dtotal + row * columns;
#pragma omp simd
    for (std::int64_t k = 0; k < columns; ++k) out[k] += other[k];
  }
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
