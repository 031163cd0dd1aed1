#include "kernels/loss.h"

#include "kernels/cuda/portability.h"

#include <span>

#include "kernels/base/error.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/loss_rows.h"
#include "kernels/padded_rows.h"

namespace lockstep::kernels {
namespace {

constexpr int block = 256;

/// As CrossEntropy.
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

/// Strides are elements from row to row: behind the columns there may be room, where the gradient is zero.
struct Rows {
  std::int64_t count, of_sample;
  std::int64_t prediction_stride, gradient_stride;
};

/// A row to each `threads` threads.
template <int threads, class Loss>
__global__ void row_losses(Loss loss_of, Rows rows, const float* predictions,
                           const typename Loss::Target* targets, const StepState* state, float* gradient,
                           RowLoss* losses) {
  const std::int64_t row = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / threads;
  if (row >= rows.count) return;
  const std::int64_t first = threadIdx.x % threads;
  const std::int64_t columns = loss_of.columns;
  const auto* const target = loss_of.of_row(targets, row);
  float* const row_gradient = gradient == nullptr ? nullptr : gradient + row * rows.gradient_stride;
  RowLoss loss{0, 0, 0, 0};
  if (row < state->valid_samples * rows.of_sample && loss_of.counts(target)) {
    loss = loss_of.template run<threads>(predictions + row * rows.prediction_stride, target, row_gradient,
                                         state->loss_scale * state->scaler_scale);
  } else if (row_gradient != nullptr) {
    for (std::int64_t k = first; k < columns; k += threads) row_gradient[k] = 0;
  }
  for (std::int64_t k = columns + first; row_gradient != nullptr && k < rows.gradient_stride; k += threads)
    row_gradient[k] = 0;
  if (first == 0) losses[row] = loss;
}

/// Predictions of which one dimension is a row may have room behind each, and their gradient has it then.
void choose_row_layouts(TensorDesc& predictions, std::span<TensorDesc> gradient, bool in_rows) {
  const auto keep = [&](TensorDesc& desc) {
    const auto rows = padded_rows(desc);
    const bool fits = in_rows && rows && rows->all_rows == rows->rows;
    if (!desc.layout || !fits) desc.layout = Layout::row_major(desc.shape);
  };
  keep(predictions);
  for (TensorDesc& desc : gradient) {
    if (!desc.layout) desc.layout = predictions.layout;
    keep(desc);
  }
}

std::int64_t stride_of(const TensorDesc& desc, std::int64_t columns) {
  if (desc.is_row_major()) return columns;
  const auto rows = padded_rows(desc);
  if (rows && rows->columns == columns && rows->all_rows == rows->rows) return rows->stride;
  throw UsageError("loss: predictions " + desc.shape.str() + " have layout " + desc.layout->str() +
                   ", must be row-major");
}

/// The rows' losses are kept in the workspace.
template <class Op, class Loss>
KernelPtr loss_kernel(const Loss& loss_of, const LossShape& shape, const KernelIo& io) {
  const Rows rows{.count = shape.rows,
                  .of_sample = shape.rows_of_sample,
                  .prediction_stride = stride_of(io.inputs[Op::predictions], shape.columns),
                  .gradient_stride = io.outputs.size() > Op::gradient
                                         ? stride_of(io.outputs[Op::gradient], shape.columns)
                                         : shape.columns};
  return cuda_kernel(
      io,
      [=](const Addresses& a, cudaStream_t stream) {
        const float* const predictions = a.in(Op::predictions);
        const auto* const targets = a.template in<typename Loss::Target>(Op::targets);
        const auto* const state = a.template in<StepState>(Op::state);
        float* const gradient = a.out(Op::gradient);
        auto* const control = a.template out<ControlBlock>(Op::control);
        auto* const losses = a.template workspace<RowLoss>();
        if (rows.count > 0 && loss_of.columns <= columns_of_a_warp) {
          const std::int64_t at_a_time = std::min<std::int64_t>(rows.count, block / warp);
          launch(row_losses<warp, Loss>, blocks_for(rows.count, at_a_time),
                 static_cast<unsigned>(at_a_time * warp), 0, stream, loss_of, rows, predictions, targets,
                 state, gradient, losses);
        } else if (rows.count > 0) {
          launch(row_losses<block, Loss>, static_cast<unsigned>(rows.count), block, 0, stream, loss_of, rows,
                 predictions, targets, state, gradient, losses);
        }
        launch_account(rows.count, losses, state, control, stream);
      },
      static_cast<std::size_t>(rows.count) * sizeof(RowLoss));
}

}  // namespace

void choose_layouts(Cuda, const SoftmaxCrossEntropy&, KernelIo& io) {
  using Op = SoftmaxCrossEntropy;
  choose_row_layouts(io.inputs[Op::predictions], std::span(io.outputs).subspan(Op::gradient), true);
  io.inputs[Op::targets].layout = Layout::row_major(io.inputs[Op::targets].shape);
}

void choose_layouts(Cuda, const MeanSquaredError&, KernelIo& io) {
  using Op = MeanSquaredError;
  TensorDesc& predictions = io.inputs[Op::predictions];
  choose_row_layouts(predictions, std::span(io.outputs).subspan(Op::gradient), predictions.shape.rank() == 2);
  io.inputs[Op::targets].layout = Layout::row_major(io.inputs[Op::targets].shape);
}

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
