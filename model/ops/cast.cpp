#include "kernels/cast.h"

#include "model/define_op.h"

namespace lockstep::model {
namespace {

using kernels::Cast;

void differentiate(const Cast&, Backward& backward) {
  const DType back = backward.type(backward.input(Cast::x)).dtype;
  backward.add_gradients(Cast{back}, {backward.output_gradient()}, {Cast::x});
}

}  // namespace

Tensor cast(Tensor x, DType to) {
  return apply(x.graph(), Cast{to}, differentiate, {x}, x.graph().given(x.id()).name);
}

}  // namespace lockstep::model
