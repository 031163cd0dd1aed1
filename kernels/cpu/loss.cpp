#include "kernels/loss.h"

#include <cmath>

#include "kernels/cpu/loop_kernel.h"
#include "kernels/cpu/loops/loops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/op_rules.h"

namespace lockstep::kernels {
namespace {

using loops::RowLoss;

/// Adds the rows in their order, so that the sum does not depend on the team.
void account(const RowLoss* losses, std::int64_t rows, float scale, ControlBlock& control) {
  double loss = 0;
  double correct = 0;
  double targets = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    loss += losses[row].loss;
    correct += losses[row].correct;
    targets += losses[row].targets;
  }
  control.loss += static_cast<float>(loss * scale);
  control.correct += static_cast<float>(correct);
  control.targets += static_cast<float>(targets);
  if (!std::isfinite(loss)) control.not_finite = 1;
}

/// `row_losses(rows, addresses, losses)` is shared out over the team; rows' losses lie in the workspace.
template <class RowLosses>
KernelPtr loss_kernel(const Shape& shape, std::size_t control_at, RowLosses row_losses) {
  const std::int64_t rows = shape[0];
  const std::int64_t columns = shape[1];
  return loop_kernel(
      [=](const Addresses& a) {
        const StepState& state = *a.at<StepState>(2);
        auto* losses = a.workspace<RowLoss>();
        parallel_ranges(rows, rows * columns, 1, [&](std::int64_t begin, std::int64_t end) {
          row_losses(loops::Rows{begin, end, columns, state.valid_samples, state.loss_scale}, a, losses);
        });
        account(losses, rows, state.loss_scale, *a.at<ControlBlock>(control_at));
      },
      static_cast<std::size_t>(rows) * sizeof(RowLoss));
}

KernelPtr cross_entropy(std::string_view kernel, const KernelIo& io, bool gradient, float smoothing) {
  check_cross_entropy(kernel, io, gradient);
  return loss_kernel(io.inputs[0].shape, gradient ? 4 : 3,
                     [=](const loops::Rows& rows, const Addresses& a, RowLoss* losses) {
                       loops::best().cross_entropy(rows, smoothing, a.at(0), a.at<std::int64_t>(1),
                                                   gradient ? a.at(3) : nullptr, losses);
                     });
}

KernelPtr squared_error(std::string_view kernel, const KernelIo& io, bool gradient) {
  check_squared_error(kernel, io, gradient);
  return loss_kernel(io.inputs[0].shape, gradient ? 4 : 3,
                     [=](const loops::Rows& rows, const Addresses& a, RowLoss* losses) {
                       loops::best().squared_error(rows, a.at(0), a.at(1), gradient ? a.at(3) : nullptr,
                                                   losses);
                     });
}

}  // namespace

KernelPtr prepare(Cpu, const SoftmaxCrossEntropy& spec, const KernelIo& io) {
  return cross_entropy("softmax_cross_entropy", io, true, spec.label_smoothing);
}

KernelPtr prepare(Cpu, const SoftmaxCrossEntropyEval&, const KernelIo& io) {
  return cross_entropy("softmax_cross_entropy_eval", io, false, 0);
}

KernelPtr prepare(Cpu, const MeanSquaredError&, const KernelIo& io) {
  return squared_error("mean_squared_error", io, true);
}

KernelPtr prepare(Cpu, const MeanSquaredErrorEval&, const KernelIo& io) {
  return squared_error("mean_squared_error_eval", io, false);
}

}  // namespace lockstep::kernels
