#include "kernels/sequence.h"

#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "kernels/base/error.h"

#include "model/define_op.h"

namespace lockstep::model {
namespace {

using kernels::LastStep;
using kernels::SequenceLengths;

/// Counts have none.
void differentiate(const SequenceLengths&, Backward&) {}

void differentiate(const LastStep&, Backward& backward) {
  std::vector<ValueId> operands{backward.output_gradient()};
  if (backward.has_input(LastStep::lengths)) operands.push_back(backward.input(LastStep::lengths));
  backward.add_gradients(kernels::LastStepBackward{}, std::move(operands), {LastStep::x});
}

}  // namespace

Tensor sequence_lengths(Tensor tokens) {
  return apply<SequenceLengths>(tokens.graph(), {}, differentiate, {tokens}, "sequence_lengths");
}

Tensor steps_first(Tensor x) {
  if (x.shape().rank() < 2) throw UsageError(fmt::format("steps_first: {} is no sequence", x.shape().str()));
  std::vector<std::int64_t> axes(x.shape().rank());
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[0], axes[1]);
  return permute(x, std::move(axes));
}

Tensor last_step(Tensor x, std::optional<Tensor> lengths) {
  std::vector<Tensor> inputs{x};
  if (lengths) inputs.push_back(*lengths);
  return apply<LastStep>(x.graph(), {}, differentiate, inputs, "last_step");
}

}  // namespace lockstep::model
