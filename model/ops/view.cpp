#include "kernels/view.h"

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/sum_to.h"
#include "model/define_op.h"

namespace lockstep::model {
namespace {

using kernels::Expand;
using kernels::Permute;
using kernels::Reshape;

void differentiate(const Reshape&, Backward& backward) {
  const Shape& back = backward.type(backward.input(Reshape::x)).shape;
  backward.add_gradients(Reshape{back}, {backward.output_gradient()}, {Reshape::x});
}

void differentiate(const Permute& op, Backward& backward) {
  Permute back = op;
  for (std::size_t i = 0; i < op.axes.size(); ++i) {
    back.axes[static_cast<std::size_t>(op.axes[i])] = static_cast<std::int64_t>(i);
  }
  backward.add_gradients(back, {backward.output_gradient()}, {Permute::x});
}

void differentiate(const Expand&, Backward& backward) {
  backward.add_gradients(kernels::SumTo{}, {backward.output_gradient()}, {Expand::x});
}

template <class View>
Tensor view(Tensor x, View op, const std::string& layer) {
  return apply<View>(x.graph(), std::move(op), differentiate, {x}, layer);
}

}  // namespace

Tensor reshape(Tensor x, Shape shape) {
  return view(x, Reshape{std::move(shape)}, "reshape");
}

Tensor flatten(Tensor x) {
  if (x.shape().rank() < 2) {
    throw UsageError(fmt::format("flatten wants a batch of something, not {}", x.shape().str()));
  }
  return view(x, Reshape{{x.shape()[0], x.shape().elements(1)}}, "flatten");
}

Tensor permute(Tensor x, std::vector<std::int64_t> axes) {
  return view(x, Permute{std::move(axes)}, "permute");
}

Tensor expand(Tensor x, Shape shape) {
  return view(x, Expand{std::move(shape)}, "expand");
}

}  // namespace lockstep::model
