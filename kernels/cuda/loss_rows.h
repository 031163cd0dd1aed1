#pragma once

#include "kernels/cuda/portability.h"

#include "kernels/cuda/elements.h"
#include "kernels/cuda/grid.h"
#include "kernels/loss.h"

/// What the losses over rows share: a row's cross entropy, and the sum of all rows.
namespace lockstep::kernels {

/// A part of a row in online softmax (Milakov and Gimelshein 2018): its first greatest element, and the sum
/// of e^(x - greatest).
struct Peak {
  float greatest;
  float total;
  std::int64_t at;
};

__device__ inline Peak exchange(const Peak& peak, int lane_mask) {
  return {__shfl_xor_sync(0xffffffffU, peak.greatest, lane_mask),
          __shfl_xor_sync(0xffffffffU, peak.total, lane_mask),
          __shfl_xor_sync(0xffffffffU, peak.at, lane_mask)};
}

__device__ inline Peak combine(const Peak& a, const Peak& b) {
  // Equals apart, since infinity minus infinity is not a number.
  if (a.greatest == b.greatest) return {a.greatest, a.total + b.total, a.at < b.at ? a.at : b.at};
  if (a.greatest > b.greatest) return {a.greatest, a.total + b.total * expf(b.greatest - a.greatest), a.at};
  return {b.greatest, b.total + a.total * expf(a.greatest - b.greatest), b.at};
}

/// The loss of a row, called by all `threads` threads of the row and giving the result to all. `gradient` is
/// null or the row's; it may be x itself.
struct CrossEntropy {
  using Target = std::int64_t;
  std::int64_t columns;
  float smoothing;
  float certain;  ///< 1 - smoothing

  __device__ const Target* of_row(const Target* targets, std::int64_t row) const { return targets + row; }
  __device__ bool counts(const Target* target) const { return *target != ignored_target; }

  template <int threads, class Element>
  __device__ RowLoss run(const Element* x, const Target* row_target, Element* gradient, float scale) const {
    const std::int64_t target = *row_target;
    const std::int64_t first = threadIdx.x % threads;
    if (target < 0 || target >= columns) {
      for (std::int64_t k = first; gradient != nullptr && k < columns; k += threads)
        gradient[k] = narrow<Element>(0);
      return {NAN, 0, 0, 1};
    }
    const float hit = widen(x[target]);
    Peak peak{-INFINITY, 0, columns};
    float above = 0;   // sum of x - hit
    float before = 0;  // how many are greater; of equal ones the first is
    for (std::int64_t k = first; k < columns; k += threads) {
      const float value = widen(x[k]);
      peak = combine(peak, Peak{value, 1, k});
      above += value - hit;
      before += value > hit || (value == hit && k < target) ? 1 : 0;
    }
    peak = reduce<threads>(peak, combine);
    // An infinity as the greatest leaves no trace in the total.
    const float poison = isfinite(peak.greatest) && isfinite(peak.total) ? 0 : NAN;
    const auto classes = static_cast<float>(columns);
    const float hard = logf(peak.total) + (peak.greatest - hit);
    const float soft = smoothing > 0 ? hard - sum<threads>(above) / classes : 0;
    if (gradient != nullptr) {
      const float inverse = scale / peak.total;
      const float spread = scale * smoothing / classes - poison;
      const float at_target = scale * certain;
      for (std::int64_t k = first; k < columns; k += threads) {
        const float share = expf(widen(x[k]) - peak.greatest) * inverse;
        gradient[k] = narrow<Element>(share - spread - (k == target ? at_target : 0));
      }
    }
    const bool in_top5 = sum<threads>(before) < 5 && poison == 0;
    const bool is_greatest = peak.at == target && poison == 0;
    return {certain * hard + smoothing * soft + poison, is_greatest ? 1.0F : 0.0F, in_top5 ? 1.0F : 0.0F, 1};
  }
};

/// Adds all rows, by one block: the order depends on the number of rows alone.
template <int threads>
__global__ void account(std::int64_t rows, const RowLoss* losses, const StepState* state,
                        ControlBlock* control) {
  double loss = 0;
  double correct = 0;
  double top5 = 0;
  double targets = 0;
  for (std::int64_t row = threadIdx.x; row < rows; row += threads) {
    loss += losses[row].loss;
    correct += losses[row].correct;
    top5 += losses[row].top5;
    targets += losses[row].targets;
  }
  loss = sum<threads>(loss);
  correct = sum<threads>(correct);
  top5 = sum<threads>(top5);
  targets = sum<threads>(targets);
  if (threadIdx.x != 0) return;
  control->loss += static_cast<float>(loss * state->loss_scale);
  control->correct += static_cast<float>(correct);
  control->top5 += static_cast<float>(top5);
  control->targets += static_cast<float>(targets);
  if (isfinite(loss)) return;
  control->not_finite = 1;
  control->not_finite_ranks = control->rank;
}

inline void launch_account(std::int64_t rows, const RowLoss* losses, const StepState* state,
                           ControlBlock* control, cudaStream_t stream) {
  constexpr int block = 256;
  const bool few = rows <= block;
  launch(few ? account<warp> : account<block>, 1, few ? warp : block, 0, stream, rows, losses, state,
         control);
}

}  // namespace lockstep::kernels
