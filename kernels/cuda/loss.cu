#include "kernels/loss.h"

#include "kernels/cuda/portability.h"

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/grid.h"

namespace lockstep::kernels {
namespace {

constexpr std::int64_t columns_of_a_warp = 1024;  // a longer row is a block's
constexpr int warp = 32;
constexpr int block = 256;

/// A part of a row in online softmax (Milakov and Gimelshein 2018): its first greatest element, and the sum
/// of e^(x - greatest).
struct Peak {
  float greatest;
  float total;
  std::int64_t at;
};

__device__ Peak exchange(const Peak& peak, int lane_mask) {
  return {__shfl_xor_sync(0xffffffffU, peak.greatest, lane_mask),
          __shfl_xor_sync(0xffffffffU, peak.total, lane_mask),
          __shfl_xor_sync(0xffffffffU, peak.at, lane_mask)};
}

__device__ Peak combine(const Peak& a, const Peak& b) {
  // Equals apart, since infinity minus infinity is not a number.
  if (a.greatest == b.greatest) return {a.greatest, a.total + b.total, a.at < b.at ? a.at : b.at};
  if (a.greatest > b.greatest) return {a.greatest, a.total + b.total * expf(b.greatest - a.greatest), a.at};
  return {b.greatest, b.total + a.total * expf(a.greatest - b.greatest), b.at};
}

/// Losses of a row, each called by all `threads` threads of the row and giving the result to all. `gradient`
/// is null or the row's.
struct CrossEntropy {
  using Target = std::int64_t;
  std::int64_t columns;
  float smoothing;
  float certain;  ///< 1 - smoothing

  __device__ const Target* of_row(const Target* targets, std::int64_t row) const { return targets + row; }
  __device__ bool counts(const Target* target) const { return *target != ignored_target; }

  template <int threads>
  __device__ RowLoss run(const float* x, const Target* row_target, float* gradient, float scale) const {
    const std::int64_t target = *row_target;
    const std::int64_t first = threadIdx.x % threads;
    if (target < 0 || target >= columns) {
      for (std::int64_t k = first; gradient != nullptr && k < columns; k += threads) gradient[k] = 0;
      return {NAN, 0, 0, 1};
    }
    const float hit = x[target];
    Peak peak{-INFINITY, 0, columns};
    float above = 0;   // sum of x - hit
    float before = 0;  // how many are greater; of equal ones the first is
    for (std::int64_t k = first; k < columns; k += threads) {
      peak = combine(peak, Peak{x[k], 1, k});
      above += x[k] - hit;
      before += x[k] > hit || (x[k] == hit && k < target) ? 1 : 0;
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
        gradient[k] = expf(x[k] - peak.greatest) * inverse - spread - (k == target ? at_target : 0);
      }
    }
    const bool in_top5 = sum<threads>(before) < 5 && poison == 0;
    return {certain * hard + smoothing * soft + poison, peak.at == target ? 1.0F : 0.0F,
            in_top5 ? 1.0F : 0.0F, 1};
  }
};

struct SquaredError {
  using Target = float;
  std::int64_t columns;

  __device__ const Target* of_row(const Target* targets, std::int64_t row) const {
    return targets + row * columns;
  }
  __device__ bool counts(const Target*) const { return true; }

  template <int threads>
  __device__ RowLoss run(const float* y, const Target* targets, float* gradient, float scale) const {
    const auto features = static_cast<float>(columns);
    const float slope = 2 * scale / features;
    float squares = 0;
    for (std::int64_t k = threadIdx.x % threads; k < columns; k += threads) {
      const float difference = y[k] - targets[k];
      squares += difference * difference;
      if (gradient != nullptr) gradient[k] = slope * difference;
    }
    return {sum<threads>(squares) / features, 0, 0, 1};
  }
};

/// A row to each `threads` threads.
template <int threads, class Loss>
__global__ void row_losses(Loss loss_of, std::int64_t rows, std::int64_t rows_of_sample,
                           const float* predictions, const typename Loss::Target* targets,
                           const StepState* state, float* gradient, RowLoss* losses) {
  const std::int64_t row = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / threads;
  if (row >= rows) return;
  const std::int64_t first = threadIdx.x % threads;
  const std::int64_t columns = loss_of.columns;
  const auto* const target = loss_of.of_row(targets, row);
  float* const row_gradient = gradient == nullptr ? nullptr : gradient + row * columns;
  RowLoss loss{0, 0, 0, 0};
  if (row < state->valid_samples * rows_of_sample && loss_of.counts(target)) {
    loss = loss_of.template run<threads>(predictions + row * columns, target, row_gradient,
                                         state->loss_scale * state->scaler_scale);
  } else if (row_gradient != nullptr) {
    for (std::int64_t k = first; k < columns; k += threads) row_gradient[k] = 0;
  }
  if (first == 0) losses[row] = loss;
}

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

/// The rows' losses are kept in the workspace.
template <class Op, class Loss>
KernelPtr loss_kernel(const Loss& loss_of, const LossShape& shape, const KernelIo& io) {
  const std::int64_t rows = shape.rows;
  const std::int64_t rows_of_sample = shape.rows_of_sample;
  return cuda_kernel(
      io,
      [=](const Addresses& a, cudaStream_t stream) {
        const float* const predictions = a.in(Op::predictions);
        const auto* const targets = a.template in<typename Loss::Target>(Op::targets);
        const auto* const state = a.template in<StepState>(Op::state);
        float* const gradient = a.out(Op::gradient);
        auto* const control = a.template out<ControlBlock>(Op::control);
        auto* const losses = a.template workspace<RowLoss>();
        if (rows > 0 && loss_of.columns <= columns_of_a_warp) {
          const std::int64_t at_a_time = std::min<std::int64_t>(rows, block / warp);
          launch(row_losses<warp, Loss>, static_cast<unsigned>((rows + at_a_time - 1) / at_a_time),
                 static_cast<unsigned>(at_a_time * warp), 0, stream, loss_of, rows, rows_of_sample,
                 predictions, targets, state, gradient, losses);
        } else if (rows > 0) {
          launch(row_losses<block, Loss>, static_cast<unsigned>(rows), block, 0, stream, loss_of, rows,
                 rows_of_sample, predictions, targets, state, gradient, losses);
        }
        const bool few = rows <= block;
        launch(few ? account<warp> : account<block>, 1, few ? warp : block, 0, stream, rows, losses, state,
               control);
      },
      static_cast<std::size_t>(rows) * sizeof(RowLoss));
}

}  // namespace

KernelPtr prepare(Cuda, const SoftmaxCrossEntropy& op, const KernelIo& io) {
  const auto shape = LossShape::of_classes(io.inputs[SoftmaxCrossEntropy::predictions].shape);
  return loss_kernel<SoftmaxCrossEntropy>(
      CrossEntropy{shape.columns, op.label_smoothing, 1 - op.label_smoothing}, shape, io);
}

KernelPtr prepare(Cuda, const MeanSquaredError&, const KernelIo& io) {
  const auto shape = LossShape::of_values(io.inputs[MeanSquaredError::predictions].shape);
  return loss_kernel<MeanSquaredError>(SquaredError{shape.columns}, shape, io);
}

}  // namespace lockstep::kernels
