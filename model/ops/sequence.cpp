#include "kernels/sequence.h"

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

Tensor last_step(Tensor x, std::optional<Tensor> lengths) {
  std::vector<Tensor> inputs{x};
  if (lengths) inputs.push_back(*lengths);
  return apply<LastStep>(x.graph(), {}, differentiate, inputs, "last_step");
}

}  // namespace lockstep::model
