#include "kernels/loss.h"

#include "kernels/cpu/cpu_kernel.h"
#include "kernels/cpu/loss_rows.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd/simd.h"

namespace lockstep::kernels {
namespace {

/// Rows are shared out over the team; their losses are kept in the workspace.
template <class Op, class Target>
KernelPtr loss_kernel(const Op& op, const LossShape& shape, const KernelIo& io) {
  return cpu_kernel(
      io,
      [=, kernel = simd::best<Op>()](const Addresses& a) {
        const StepState& state = *a.template in<StepState>(Op::state);
        auto* const losses = a.template workspace<RowLoss>();
        const std::int64_t valid = state.valid_samples * shape.rows_of_sample;
        const float scale = state.loss_scale * state.scaler_scale;
        parallel_ranges(shape.rows, shape.rows * shape.columns, 1, [&](std::int64_t begin, std::int64_t end) {
          kernel(op, {begin, end, shape.columns, valid, scale}, a.in(Op::predictions),
                 a.template in<Target>(Op::targets), a.out(Op::gradient), losses);
        });
        account(losses, shape.rows, state.loss_scale, *a.template out<ControlBlock>(Op::control));
      },
      static_cast<std::size_t>(shape.rows) * sizeof(RowLoss));
}

}  // namespace

void choose_layouts(Cpu, const SoftmaxCrossEntropy&, KernelIo& io) {
  all_row_major(io);
}
void choose_layouts(Cpu, const MeanSquaredError&, KernelIo& io) {
  all_row_major(io);
}

KernelPtr prepare(Cpu, const SoftmaxCrossEntropy& op, const KernelIo& io) {
  return loss_kernel<SoftmaxCrossEntropy, std::int64_t>(
      op, LossShape::of_classes(io.inputs[SoftmaxCrossEntropy::predictions].shape), io);
}

KernelPtr prepare(Cpu, const MeanSquaredError& op, const KernelIo& io) {
  return loss_kernel<MeanSquaredError, float>(
      op, LossShape::of_values(io.inputs[MeanSquaredError::predictions].shape), io);
}

}  // namespace lockstep::kernels
