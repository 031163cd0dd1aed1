#include "kernels/classifier.h"

#include "kernels/cpu/simd/math.h"

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

void add_block(const ClassifierBlock& block, const float* x, ClassifierRow& row) {
  float peak = row.peak;
#pragma omp simd reduction(max : peak)
  for (std::int64_t k = 0; k < block.columns; ++k) peak = x[k] > peak ? x[k] : peak;
  float total = 0;
  float sum = 0;
  float broken = 0;
#pragma omp simd reduction(+ : total, sum, broken)
  for (std::int64_t k = 0; k < block.columns; ++k) {
    const float difference = x[k] - peak;
    total += Math::exp_negative(difference);
    sum += difference;
    broken += difference != difference ? 1.0F : 0.0F;
  }
  if (block.first > 0) {
    const float lower = row.peak - peak;
    total += row.total * Math::exp_negative(lower);
    sum += row.sum + static_cast<float>(block.first) * lower;
    broken += row.broken;
  }
  row.peak = peak;
  row.total = total;
  row.sum = sum;
  row.broken = broken;
  const std::int64_t target = row.target - block.first;
  if (target >= 0 && target < block.columns) row.hit = x[target];
}

template <class Element>
void write_gradient(const ClassifierGradient& op, const ClassifierBlock& block, const float* x,
                    const ClassifierRow& row, Element* gradient) {
  const float peak = row.peak;
  const float inverse = op.scale / row.total;
  // exp_negative's clamp hides a NaN, and an infinity as the greatest.
  const float poison = row.broken > 0 ? __builtin_nanf("") : 0;
  const float spread = op.scale * op.label_smoothing / static_cast<float>(block.classes) - poison;
  const std::int64_t target = row.target - block.first;
  const bool here = target >= 0 && target < block.columns;
  const float hit = here ? Math::exp_negative(x[target] - peak) * inverse - spread : 0;
#pragma omp simd
  for (std::int64_t k = 0; k < block.columns; ++k) {
    store(gradient + k, Math::exp_negative(x[k] - peak) * inverse - spread);
  }
  if (here) store(gradient + target, hit - op.scale * (1 - op.label_smoothing));
}

template <class Element>
void write_gradients(const ClassifierGradient& op, const ClassifierBlock& block, const float* logits,
                     Element* gradient, ClassifierRow* rows) {
  for (std::int64_t i = block.begin; i < block.end; ++i) {
    const float* const x = logits + i * block.columns;
    Element* const to = gradient + i * block.columns;
    if (rows[i].target == ClassifierRow::none) {
      for (std::int64_t k = 0; k < block.columns; ++k) store(to + k, 0.0F);
      continue;
    }
    count_before(block, x, rows[i]);
    write_gradient(op, block, x, rows[i], to);
  }
}

}  // namespace

void run(const ClassifierSums&, const ClassifierBlock& block, const float* bias, float* logits,
         ClassifierRow* rows) {
  for (std::int64_t i = block.begin; i < block.end; ++i) {
    if (rows[i].target == ClassifierRow::none) continue;
    float* const x = logits + i * block.columns;
    if (bias != nullptr) {
#pragma omp simd
      for (std::int64_t k = 0; k < block.columns; ++k) x[k] += bias[block.first + k];
    }
    add_block(block, x, rows[i]);
  }
}

void run(const ClassifierGradient& op, const ClassifierBlock& block, const float* logits, void* gradient,
         ClassifierRow* rows) {
  if (gradient == nullptr) {
    for (std::int64_t i = block.begin; i < block.end; ++i) {
      if (rows[i].target != ClassifierRow::none) count_before(block, logits + i * block.columns, rows[i]);
    }
  } else if (op.dtype == DType::f32) {
    write_gradients(op, block, logits, static_cast<float*>(gradient), rows);
  } else {
    write_gradients(op, block, logits, static_cast<Bf16*>(gradient), rows);
  }
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
