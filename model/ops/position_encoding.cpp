#include "kernels/position_encoding.h"

#include "model/define_op.h"

namespace lockstep::model {
namespace {

using kernels::PositionEncoding;

void differentiate(const PositionEncoding&, Backward& backward) {
  backward.contribute(PositionEncoding::x, backward.output_gradient());
}

}  // namespace

Tensor position_encoding(Tensor x) {
  return apply(x.graph(), PositionEncoding{}, differentiate, {x.id()}, std::string(PositionEncoding::name));
}

}  // namespace lockstep::model
