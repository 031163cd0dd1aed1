#include "kernels/pool2d.h"

#include "model/define_op.h"

namespace lockstep::model {
namespace {

using kernels::AdaptiveAvgPool2d;
using kernels::AvgPool2d;
using kernels::MaxPool2d;

void differentiate(const MaxPool2d& op, Backward& backward) {
  backward.add_gradients(kernels::MaxPool2dBackward{.geometry = op.geometry},
                         {backward.input(MaxPool2d::x), backward.output_gradient()}, {MaxPool2d::x});
}

void differentiate(const AvgPool2d& op, Backward& backward) {
  backward.add_gradients(kernels::AvgPool2dBackward{op.geometry}, {backward.output_gradient()},
                         {AvgPool2d::x});
}

void differentiate(const AdaptiveAvgPool2d& op, Backward& backward) {
  backward.add_gradients(kernels::AdaptiveAvgPool2dBackward{op.output}, {backward.output_gradient()},
                         {AdaptiveAvgPool2d::x});
}

template <class Pool>
Tensor pool(Tensor x, const PoolOptions& options) {
  const std::int64_t stride = options.stride == 0 ? options.kernel : options.stride;
  const Pool op{{.kernel = {options.kernel, options.kernel},
                 .stride = {stride, stride},
                 .padding = {options.padding, options.padding}}};
  return apply<Pool>(x.graph(), op, differentiate, {x}, std::string(Pool::name));
}

}  // namespace

Tensor max_pool2d(Tensor x, PoolOptions options) {
  return pool<MaxPool2d>(x, options);
}

Tensor avg_pool2d(Tensor x, PoolOptions options) {
  return pool<AvgPool2d>(x, options);
}

Tensor adaptive_avg_pool2d(Tensor x, std::int64_t out_h, std::int64_t out_w) {
  using Pool = AdaptiveAvgPool2d;
  return apply(x.graph(), Pool{{out_h, out_w}}, differentiate, {x}, std::string(Pool::name));
}

}  // namespace lockstep::model
