#include "kernels/classifier.h"

#include "kernels/cpu/simd/classifier_row.h"
#include "kernels/cpu/simd/lanes.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

using L = Lanes<native_width>;

/// `part(begin, end)` for whole vectors, `each(k)` for what is left.
template <class Part, class Each>
[[gnu::always_inline]] inline void over(std::int64_t count, const Part& part, const Each& each) {
  std::int64_t k = 0;
  for (; k + native_width <= count; k += native_width) part(k);
  for (; k < count; ++k) each(k);
}

void keep(const ClassifierBlock& block, float* x, Bf16* kept, float& peak_of_block, ClassifierRow& row) {
  count_before(block, x, row);
  // Finite where all of the block are -inf: their distance to the peak is a number.
  const float peak = greatest(x, block.columns, -__FLT_MAX__);
  const Exponentials here = exponentials(x, block.columns, peak, [x](std::int64_t k, float e) { x[k] = e; });
  over(
      block.columns, [&](std::int64_t k) { L::store(kept + k, L::load(x + k)); },
      [&](std::int64_t k) { store(kept + k, x[k]); });
  peak_of_block = peak;
  const float highest = row.peak > peak ? row.peak : peak;
  const float lower_before = row.peak - highest;
  const float lower_here = peak - highest;
  const bool is_first = block.first == 0;
  row.total = (is_first ? 0 : row.total * Math::exp_negative(lower_before)) +
              here.total * Math::exp_negative(lower_here);
  row.sum = (is_first ? 0 : row.sum + static_cast<float>(block.first) * lower_before) + here.sum +
            static_cast<float>(block.columns) * lower_here;
  row.broken += here.broken;
  row.peak = highest;
}

void write_gradient(const ClassifierKeptGradient& op, const ClassifierBlock& block, const Bf16* kept,
                    float peak, const ClassifierRow& row, Bf16* gradient) {
  const float factor = Math::exp_negative(peak - row.peak) * (op.scale / row.total);
  // Exponentials hide a NaN, and an infinity as the greatest.
  const float poison = row.broken > 0 ? __builtin_nanf("") : 0;
  const float spread = op.scale * op.label_smoothing / static_cast<float>(block.classes) - poison;
  over(
      block.columns, [&](std::int64_t k) { L::store(gradient + k, L::load(kept + k) * factor - spread); },
      [&](std::int64_t k) { store(gradient + k, load(kept + k) * factor - spread); });
  for (std::int64_t k = block.columns; k < block.row; ++k) store(gradient + k, 0.0F);
  const std::int64_t target = row.target - block.first;
  if (target < 0 || target >= block.columns) return;
  const float hit = Math::exp_negative(row.hit - row.peak) * (op.scale / row.total) - spread;
  store(gradient + target, hit - op.scale * (1 - op.label_smoothing));
}

}  // namespace

void run(const ClassifierExponentials&, const ClassifierBlock& block, const float* bias, float* logits,
         void* kept, float* peaks, ClassifierRow* rows) {
  for (std::int64_t i = block.begin; i < block.end; ++i) {
    if (rows[i].target == ClassifierRow::none) continue;
    float* const x = logits + i * block.row;
    add_bias(block, bias, x);
    keep(block, x, static_cast<Bf16*>(kept) + i * block.row, peaks[i], rows[i]);
  }
}

void run(const ClassifierKeptGradient& op, const ClassifierBlock& block, const void* kept, const float* peaks,
         void* gradient, const ClassifierRow* rows) {
  for (std::int64_t i = block.begin; i < block.end; ++i) {
    Bf16* const to = static_cast<Bf16*>(gradient) + i * block.row;
    if (rows[i].target == ClassifierRow::none) {
      for (std::int64_t k = 0; k < block.row; ++k) store(to + k, 0.0F);
    } else {
      write_gradient(op, block, static_cast<const Bf16*>(kept) + i * block.row, peaks[i], rows[i], to);
    }
  }
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
