#include "kernels/layer_norm.h"

#include "kernels/cpu/simd/math.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

/// `visit(pointer)` with the first number of a row, in its type.
template <class Visit>
[[gnu::always_inline]] inline void with_row(DType dtype, const void* rows, std::int64_t first, Visit visit) {
  if (dtype == DType::bf16) return visit(static_cast<const Bf16*>(rows) + first);
  visit(static_cast<const float*>(rows) + first);
}
template <class Visit>
[[gnu::always_inline]] inline void with_row(DType dtype, void* rows, std::int64_t first, Visit visit) {
  if (dtype == DType::bf16) return visit(static_cast<Bf16*>(rows) + first);
  visit(static_cast<float*>(rows) + first);
}

struct Moments {
  float mean, variance;
};

/// What rounding took from the mean, much in rows far from zero, the distances from it give back.
Moments moments(const float* x, std::int64_t columns) {
  const auto count = static_cast<float>(columns);
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t k = 0; k < columns; ++k) sum += x[k];
  const float center = sum / count;
  float distances = 0;
  float squares = 0;
#pragma omp simd reduction(+ : distances, squares)
  for (std::int64_t k = 0; k < columns; ++k) {
    const float distance = x[k] - center;
    distances += distance;
    squares += distance * distance;
  }
  const float shift = distances / count;
  const float variance = squares / count - shift * shift;
  return {center + shift, variance < 0 ? 0 : variance};
}

}  // namespace

void run(const LayerNorm& op, const NormRows& rows, const float* x, const float* weight, const float* bias,
         const void* residual, void* y, float* mean, float* rstd, float* total) {
  const std::int64_t columns = rows.columns;
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const std::int64_t first = row * columns;
    const float* from = x + first;
    if (residual != nullptr) {
      float* const both = total + first;
      with_row(rows.of_residual, residual, first, [&](const auto* other) {
#pragma omp simd
        for (std::int64_t k = 0; k < columns; ++k) both[k] = from[k] + load(other + k);
      });
      from = both;
    }
    const Moments of_row = moments(from, columns);
    const float center = of_row.mean;
    const float scale = Math::rsqrt(of_row.variance + static_cast<float>(op.eps));
    with_row(rows.of_y, y, first, [&](auto* to) {
      if (bias == nullptr) {
#pragma omp simd
        for (std::int64_t k = 0; k < columns; ++k) store(to + k, (from[k] - center) * scale * weight[k]);
      } else {
#pragma omp simd
        for (std::int64_t k = 0; k < columns; ++k)
          store(to + k, (from[k] - center) * scale * weight[k] + bias[k]);
      }
    });
    mean[row] = center;
    rstd[row] = scale;
  }
}

/// With n = (x - mean) * rstd and g = dy * weight: dx = rstd * (g - mean of g - n * mean of (g * n)).
void run(const LayerNormBackward&, const NormRows& rows, const void* dy, const float* x, const float* weight,
         const float* mean, const float* rstd, const float* dtotal, float* dx, void* dresidual, float* sums) {
  const std::int64_t columns = rows.columns;
  const auto count = static_cast<float>(columns);
  float* const dweight = sums;
  float* const dbias = sums + columns;
  for (std::int64_t k = 0; k < 2 * columns; ++k) sums[k] = 0;
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const std::int64_t first = row * columns;
    const float* const in = x + first;
    float* const out = dx + first;
    // Sums have the same order, so the same bits, for any type of dy: one of bf16 waits in dx as f32.
    const float* gradient = out;
    if (rows.of_y == DType::f32) {
      gradient = static_cast<const float*>(dy) + first;
    } else {
      const Bf16* const narrow = static_cast<const Bf16*>(dy) + first;
#pragma omp simd
      for (std::int64_t k = 0; k < columns; ++k) out[k] = load(narrow + k);
    }
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
      const float of_y = gradient[k];
      out[k] = scale * (of_y * weight[k] - shift - n * slope);
      dweight[k] += of_y * n;
      dbias[k] += of_y;
    }
    if (dtotal != nullptr) {
      const float* const other = dtotal + first;
#pragma omp simd
      for (std::int64_t k = 0; k < columns; ++k) out[k] += other[k];
    }
    if (dresidual == nullptr) continue;
    Bf16* const narrow = static_cast<Bf16*>(dresidual) + first;
#pragma omp simd
    for (std::int64_t k = 0; k < columns; ++k) store(narrow + k, out[k]);
  }
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
