#include "kernels/pointwise.h"

#include "kernels/pointwise_functions.h"
#include "kernels/sum_to.h"
#include "model/define_op.h"

namespace lockstep::model {
namespace {

using kernels::Pointwise;
using kernels::PointwiseFunction;
using kernels::PointwisePart;

/// From x, or from y where the function says so.
template <bool from_output>
void differentiate_unary(const Pointwise& op, Backward& backward) {
  const ValueId of = from_output ? backward.output() : backward.input(0);
  backward.add_gradients(Pointwise::single(op.steps[0].function, PointwisePart::gradient),
                         {of, backward.output_gradient()}, {0});
}

/// `gradient` has the shape of the output: summed over what the input was broadcast over.
void contribute_summed(Backward& backward, std::size_t input, ValueId gradient) {
  if (!backward.needs(input)) return;
  const bool broadcast = backward.type(backward.input(input)) != backward.type(gradient);
  if (broadcast) {
    backward.add_gradients(kernels::SumTo{}, {gradient}, {input});
  } else {
    backward.contribute(input, gradient);
  }
}

/// By nodes for da and db, unless these are dy.
template <bool passes_gradient>
void differentiate_binary(const Pointwise& op, Backward& backward) {
  const ValueId dy = backward.output_gradient();
  constexpr PointwisePart parts[] = {PointwisePart::gradient, PointwisePart::gradient_b};
  for (const std::size_t input : {std::size_t{0}, std::size_t{1}}) {
    if (!backward.needs(input)) continue;
    const ValueId gradient =
        passes_gradient ? dy
                        : backward.add_node(make_op(Pointwise::single(op.steps[0].function, parts[input])),
                                            {backward.input(0), backward.input(1), dy}, backward.type(dy));
    contribute_summed(backward, input, gradient);
  }
}

}  // namespace

#define LOCKSTEP_UNARY(Function, name)                                                                    \
  Tensor name(Tensor x) {                                                                                 \
    return apply<Pointwise>(x.graph(), Pointwise::single(PointwiseFunction::name),                        \
                            differentiate_unary<kernels::pointwise::Function::gradient_from_output>, {x}, \
                            #name);                                                                       \
  }
#define LOCKSTEP_BINARY(Function, name)                                                                  \
  Tensor name(Tensor a, Tensor b) {                                                                      \
    return apply<Pointwise>(a.graph(), Pointwise::single(PointwiseFunction::name),                       \
                            differentiate_binary<kernels::pointwise::Function::passes_gradient>, {a, b}, \
                            #name);                                                                      \
  }
#include "kernels/pointwise.def"

}  // namespace lockstep::model
