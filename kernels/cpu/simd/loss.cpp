#include "kernels/loss.h"

#include "kernels/cpu/simd/math.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

void clear(float* row, std::int64_t columns) {
  for (std::int64_t k = 0; k < columns; ++k) row[k] = 0;
}

struct Peak {
  float value;
  std::int64_t at;
};

Peak first_greatest(const float* row, std::int64_t columns) {
  float greatest = row[0];
#pragma omp simd reduction(max : greatest)
  for (std::int64_t k = 0; k < columns; ++k) greatest = row[k] > greatest ? row[k] : greatest;
  std::int64_t at = 0;
  while (at < columns - 1 && row[at] != greatest) ++at;
  return {greatest, at};
}

/// How many of the row are greater than x[target], and so stand before it; of equal ones the first does.
std::int64_t place_of(const float* x, std::int64_t columns, std::int64_t target) {
  const float hit = x[target];
  std::int64_t before = 0;
#pragma omp simd reduction(+ : before)
  for (std::int64_t k = 0; k < target; ++k) before += x[k] >= hit ? 1 : 0;
#pragma omp simd reduction(+ : before)
  for (std::int64_t k = target + 1; k < columns; ++k) before += x[k] > hit ? 1 : 0;
  return before;
}

RowLoss row_loss(const float* x, std::int64_t columns, std::int64_t target, float smoothing, float scale,
                 float* gradient) {
  const Peak peak = first_greatest(x, columns);
  float total = 0;
  float sum = 0;
  float broken = 0;
#pragma omp simd reduction(+ : total, sum, broken)
  for (std::int64_t k = 0; k < columns; ++k) {
    const float difference = x[k] - peak.value;
    total += Math::exp_negative(difference);
    sum += difference;
    broken += difference != difference ? 1.0F : 0.0F;
  }
  const auto classes = static_cast<float>(columns);
  const float log_total = __builtin_logf(total);
  const float hard = log_total - (x[target] - peak.value);
  const float soft = smoothing > 0 ? log_total - sum / classes : 0;
  // exp_negative's clamp hides a NaN, and an infinity as the greatest; the difference is then not a number.
  const float poison = broken > 0 ? __builtin_nanf("") : 0;
  if (gradient != nullptr) {
    const float inverse = scale / total;
    const float spread = scale * smoothing / classes - poison;
#pragma omp simd
    for (std::int64_t k = 0; k < columns; ++k) {
      gradient[k] = Math::exp_negative(x[k] - peak.value) * inverse - spread;
    }
    gradient[target] -= scale * (1 - smoothing);
  }
  const bool is_greatest = broken == 0 && peak.at == target;
  const bool in_top5 = broken == 0 && place_of(x, columns, target) < 5;
  return {(1 - smoothing) * hard + smoothing * soft + poison, is_greatest ? 1.0F : 0.0F,
          in_top5 ? 1.0F : 0.0F, 1};
}

}  // namespace

void run(const SoftmaxCrossEntropy& op, const LossRows& rows, const float* logits,
         const std::int64_t* targets, float* gradient, RowLoss* losses) {
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    float* out = gradient == nullptr ? nullptr : gradient + row * rows.columns;
    const bool counts = row < rows.valid && targets[row] != ignored_target;
    const bool in_range = counts && targets[row] >= 0 && targets[row] < rows.columns;
    if (in_range) {
      losses[row] = row_loss(logits + row * rows.columns, rows.columns, targets[row], op.label_smoothing,
                             rows.scale, out);
      continue;
    }
    if (out != nullptr) clear(out, rows.columns);
    losses[row] = counts ? RowLoss{__builtin_nanf(""), 0, 0, 1} : RowLoss{0, 0, 0, 0};
  }
}

void run(const MeanSquaredError&, const LossRows& rows, const float* y, const float* targets, float* gradient,
         RowLoss* losses) {
  const auto columns = static_cast<float>(rows.columns);
  const float slope = 2 * rows.scale / columns;
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const std::int64_t at = row * rows.columns;
    if (row >= rows.valid) {
      if (gradient != nullptr) clear(gradient + at, rows.columns);
      losses[row] = {0, 0, 0, 0};
      continue;
    }
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t k = 0; k < rows.columns; ++k) {
      const float difference = y[at + k] - targets[at + k];
      sum += difference * difference;
    }
    if (gradient != nullptr) {
#pragma omp simd
      for (std::int64_t k = 0; k < rows.columns; ++k)
        gradient[at + k] = slope * (y[at + k] - targets[at + k]);
    }
    losses[row] = {sum / columns, 0, 0, 1};
  }
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
