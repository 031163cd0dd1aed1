// An op of one's own: the rules of forward and backward, the gradient as a function, the layer.
#include "softsign.h"

#include <cmath>

#include "kernels/cpu/parallel.h"
#include "runtime/plugin/plugin.h"

using namespace lockstep;

namespace {

using kernels::Addresses;
using kernels::ExternalOp;

/// `at(addresses, i)` for every i of output 0, on the team.
template <class At>
kernels::ExternalKernel for_each_element(const kernels::KernelIo& io, At at) {
  const std::int64_t n = io.outputs[0].shape.elements();
  return {[n, at](const Addresses& a) {
    kernels::parallel_ranges(n, n, 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) at(a, i);
    });
  }};
}

struct Softsign : kernels::ExternalRules {
  explicit Softsign(float slope_of_x) : slope(slope_of_x) {}
  std::string plugin() const override { return "rings"; }
  std::string name() const override { return "softsign"; }
  std::string attributes() const override { return "slope " + std::to_string(slope); }

  kernels::Types infer(kernels::TypeSpan in) const override {
    kernels::require_count(in, 1, 1);
    kernels::require_dtype("x", in[0], DType::f32);
    return {in[0]};
  }

  kernels::ExternalKernel cpu_kernel(const kernels::KernelIo& io) const override {
    return for_each_element(io, [s = slope](const Addresses& a, std::int64_t i) {
      const float x = a.in(0)[i];
      a.out(0)[i] = x / (1 + s * std::abs(x));
    });
  }

  float slope;
};

/// dx = dy / (1 + slope |x|)^2 of dy and x.
struct SoftsignBackward : Softsign {
  using Softsign::Softsign;
  std::string name() const override { return "softsign_backward"; }

  kernels::Types infer(kernels::TypeSpan in) const override {
    kernels::require_count(in, 2, 2);
    kernels::require_type("dy", in[0], in[1]);
    return {in[1]};
  }

  kernels::ExternalKernel cpu_kernel(const kernels::KernelIo& io) const override {
    return for_each_element(io, [s = slope](const Addresses& a, std::int64_t i) {
      const float root = 1 + s * std::abs(a.in(1)[i]);
      a.out(0)[i] = a.in(0)[i] / (root * root);
    });
  }
};

void differentiate(const ExternalOp& op, model::Backward& backward) {
  const auto& forward = static_cast<const Softsign&>(*op.rules);
  backward.add_gradients(ExternalOp{std::make_shared<SoftsignBackward>(forward.slope)},
                         {backward.output_gradient(), backward.input(0)}, {0});
}

}  // namespace

model::Tensor softsign(model::Tensor x, double slope) {
  return model::apply(x.graph(), ExternalOp{std::make_shared<Softsign>(static_cast<float>(slope))},
                      differentiate, {x.id()}, "softsign");
}
