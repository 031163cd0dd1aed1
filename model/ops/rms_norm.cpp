#include "kernels/rms_norm.h"

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "model/define_op.h"

namespace lockstep::model {
namespace {

using kernels::RmsNorm;

void differentiate(const RmsNorm&, Backward& backward) {
  backward.add_gradients(kernels::RmsNormBackward{},
                         {backward.output_gradient(), backward.input(RmsNorm::x),
                          backward.input(RmsNorm::weight), backward.output(RmsNorm::rstd)},
                         {RmsNorm::x, RmsNorm::weight});
}

}  // namespace

Tensor rms_norm(Tensor x, const std::string& name, RmsNormOptions options) {
  const std::size_t rank = x.shape().rank();
  if (rank == 0) {
    throw UsageError(fmt::format("layer '{}' (rms_norm): a scalar has no row to normalise", name));
  }
  const Tensor weight =
      parameter(x.graph(), parameter_name(name, "weight"), {x.shape()[rank - 1]}, {.start = 1});
  return apply(x.graph(), RmsNorm{options.eps}, differentiate, {x, weight}, name);
}

}  // namespace lockstep::model
