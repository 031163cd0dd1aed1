#include "kernels/loss.h"

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/portability.h"
#include "kernels/cuda/reduce.h"
#include "kernels/op_rules.h"

namespace lockstep::kernels {
namespace {

constexpr std::int64_t ignored = -100;            // PyTorch's ignore_index
constexpr std::int64_t columns_of_a_warp = 1024;  // more: a block to a row
constexpr int warp = 32;
constexpr int block = 256;

/// What one row adds to the loss, before the loss scale.
struct RowLoss {
  float loss;
  float correct;
  float targets;
};

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

/// Equal greatest ones are no special case but for this: infinity minus itself is no number.
__device__ Peak combine(const Peak& a, const Peak& b) {
  if (a.greatest == b.greatest) return {a.greatest, a.total + b.total, a.at < b.at ? a.at : b.at};
  if (a.greatest > b.greatest) return {a.greatest, a.total + b.total * expf(b.greatest - a.greatest), a.at};
  return {b.greatest, b.total + a.total * expf(a.greatest - b.greatest), b.at};
}

struct CrossEntropy {
  using Target = std::int64_t;
  const float* logits;
  const std::int64_t* targets;
  float* gradient;  ///< null: not wanted
  std::int64_t columns;
  float smoothing;

  __device__ bool counts(std::int64_t row) const { return targets[row] != ignored; }

  /// By all `threads` threads of a row; each gets the result.
  template <int threads>
  __device__ RowLoss operator()(std::int64_t row, float scale) const {
    const std::int64_t target = targets[row];
    const std::int64_t first = threadIdx.x % threads;
    float* const out = gradient == nullptr ? nullptr : gradient + row * columns;
    if (target < 0 || target >= columns) {
      for (std::int64_t k = first; out != nullptr && k < columns; k += threads) out[k] = 0;
      return {NAN, 0, 1};
    }
    const float* const x = logits + row * columns;
    const float hit = x[target];
    Peak peak{-INFINITY, 0, columns};
    float above = 0;  // sum of x - hit
    for (std::int64_t k = first; k < columns; k += threads) {
      peak = combine(peak, Peak{x[k], 1, k});
      above += x[k] - hit;
    }
    peak = reduce<threads>(peak, combine);
    // An infinity as the greatest leaves no trace in the total.
    const float poison = isfinite(peak.greatest) && isfinite(peak.total) ? 0 : NAN;
    const auto classes = static_cast<float>(columns);
    const float hard = logf(peak.total) + (peak.greatest - hit);
    const float soft = smoothing > 0 ? hard - sum<threads>(above) / classes : 0;
    if (out != nullptr) {
      const float inverse = scale / peak.total;
      const float spread = scale * smoothing / classes - poison;
      const float at_target = scale * (1 - smoothing);
      for (std::int64_t k = first; k < columns; k += threads) {
        out[k] = expf(x[k] - peak.greatest) * inverse - spread - (k == target ? at_target : 0);
      }
    }
    return {(1 - smoothing) * hard + smoothing * soft + poison, peak.at == target ? 1.0F : 0.0F, 1};
  }
};

struct SquaredError {
  const float* y;
  const float* targets;
  float* gradient;
  std::int64_t columns;

  __device__ bool counts(std::int64_t) const { return true; }

  template <int threads>
  __device__ RowLoss operator()(std::int64_t row, float scale) const {
    const auto features = static_cast<float>(columns);
    const float slope = 2 * scale / features;
    const std::int64_t end = (row + 1) * columns;
    float squares = 0;
    for (std::int64_t k = row * columns + threadIdx.x % threads; k < end; k += threads) {
      const float difference = y[k] - targets[k];
      squares += difference * difference;
      if (gradient != nullptr) gradient[k] = slope * difference;
    }
    return {sum<threads>(squares) / features, 0, 1};
  }
};

/// A row to each `threads` threads.
template <int threads, class RowOp>
__global__ void row_losses(RowOp op, const StepState* state, std::int64_t rows, RowLoss* losses) {
  const std::int64_t row = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / threads;
  if (row >= rows) return;
  RowLoss loss{0, 0, 0};
  const std::int64_t first = threadIdx.x % threads;
  if (row < state->valid_samples && op.counts(row)) {
    loss = op.template operator()<threads>(row, state->loss_scale);
  } else if (op.gradient != nullptr) {
    for (std::int64_t k = first; k < op.columns; k += threads) op.gradient[row * op.columns + k] = 0;
  }
  if (first == 0) losses[row] = loss;
}

/// Adds all rows, by one block: the order depends on the number of rows alone.
template <int threads>
__global__ void account(const RowLoss* losses, std::int64_t rows, const StepState* state,
                        ControlBlock* control) {
  double loss = 0;
  double correct = 0;
  double targets = 0;
  for (std::int64_t row = threadIdx.x; row < rows; row += threads) {
    loss += losses[row].loss;
    correct += losses[row].correct;
    targets += losses[row].targets;
  }
  loss = sum<threads>(loss);
  correct = sum<threads>(correct);
  targets = sum<threads>(targets);
  if (threadIdx.x != 0) return;
  control->loss += static_cast<float>(loss * state->loss_scale);
  control->correct += static_cast<float>(correct);
  control->targets += static_cast<float>(targets);
  if (!isfinite(loss)) control->not_finite = 1;
}

template <class RowOp>
void launch_loss(const RowOp& op, std::int64_t rows, const StepState* state, RowLoss* losses,
                 ControlBlock* control, cudaStream_t stream) {
  if (rows > 0 && op.columns <= columns_of_a_warp) {
    const std::int64_t rows_of_a_block = std::min<std::int64_t>(rows, block / warp);
    const auto blocks = static_cast<unsigned>((rows + rows_of_a_block - 1) / rows_of_a_block);
    launch(row_losses<warp, RowOp>, blocks, static_cast<unsigned>(rows_of_a_block * warp), 0, stream, op,
           state, rows, losses);
  } else if (rows > 0) {
    launch(row_losses<block, RowOp>, static_cast<unsigned>(rows), block, 0, stream, op, state, rows, losses);
  }
  if (rows <= block) {
    launch(account<warp>, 1, warp, 0, stream, losses, rows, state, control);
  } else {
    launch(account<block>, 1, block, 0, stream, losses, rows, state, control);
  }
}

KernelPtr cross_entropy(std::string_view kernel, const KernelIo& io, bool gradient, float smoothing) {
  check_cross_entropy(kernel, io, gradient);
  const Shape& shape = io.inputs[0].shape;
  return cuda_kernel(
      [=, rows = shape[0], columns = shape[1]](const Addresses& a, cudaStream_t stream) {
        const CrossEntropy op{a.at(0), a.at<std::int64_t>(1), gradient ? a.at(3) : nullptr, columns,
                              smoothing};
        launch_loss(op, rows, a.at<StepState>(2), a.workspace<RowLoss>(),
                    a.at<ControlBlock>(gradient ? 4 : 3), stream);
      },
      static_cast<std::size_t>(shape[0]) * sizeof(RowLoss));
}

KernelPtr squared_error(std::string_view kernel, const KernelIo& io, bool gradient) {
  check_squared_error(kernel, io, gradient);
  const Shape& shape = io.inputs[0].shape;
  return cuda_kernel(
      [=, rows = shape[0], columns = shape[1]](const Addresses& a, cudaStream_t stream) {
        const SquaredError op{a.at(0), a.at(1), gradient ? a.at(3) : nullptr, columns};
        launch_loss(op, rows, a.at<StepState>(2), a.workspace<RowLoss>(),
                    a.at<ControlBlock>(gradient ? 4 : 3), stream);
      },
      static_cast<std::size_t>(shape[0]) * sizeof(RowLoss));
}

}  // namespace

KernelPtr prepare(Cuda, const SoftmaxCrossEntropy& spec, const KernelIo& io) {
  return cross_entropy("softmax_cross_entropy", io, true, spec.label_smoothing);
}

KernelPtr prepare(Cuda, const SoftmaxCrossEntropyEval&, const KernelIo& io) {
  return cross_entropy("softmax_cross_entropy_eval", io, false, 0);
}

KernelPtr prepare(Cuda, const MeanSquaredError&, const KernelIo& io) {
  return squared_error("mean_squared_error", io, true);
}

KernelPtr prepare(Cuda, const MeanSquaredErrorEval&, const KernelIo& io) {
  return squared_error("mean_squared_error_eval", io, false);
}

}  // namespace lockstep::kernels
