#include "kernels/classifier.h"

#include "kernels/cpu/simd/classifier_row.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

void add_block(const ClassifierBlock& block, const float* x, ClassifierRow& row) {
  const float peak = greatest(x, block.columns, row.peak);
  Exponentials all = exponentials(x, block.columns, peak, [](std::int64_t, float) {});
  if (block.first > 0) {
    const float lower = row.peak - peak;
    all.total += row.total * Math::exp_negative(lower);
    all.sum += row.sum + static_cast<float>(block.first) * lower;
    all.broken += row.broken;
  }
  row.peak = peak;
  row.total = all.total;
  row.sum = all.sum;
  row.broken = all.broken;
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
    const float* const x = logits + i * block.row;
    Element* const to = gradient + i * block.row;
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
    float* const x = logits + i * block.row;
    add_bias(block, bias, x);
    add_block(block, x, rows[i]);
  }
}

void run(const ClassifierGradient& op, const ClassifierBlock& block, const float* logits, void* gradient,
         ClassifierRow* rows) {
  if (gradient == nullptr) {
    for (std::int64_t i = block.begin; i < block.end; ++i) {
      if (rows[i].target != ClassifierRow::none) count_before(block, logits + i * block.row, rows[i]);
    }
  } else if (op.dtype == DType::f32) {
    write_gradients(op, block, logits, static_cast<float*>(gradient), rows);
  } else {
    write_gradients(op, block, logits, static_cast<Bf16*>(gradient), rows);
  }
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
