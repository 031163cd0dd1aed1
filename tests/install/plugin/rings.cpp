// A plugin of one's own: an op with its gradient, a model that uses it, and a data set.
#include <array>
#include <cmath>
#include <cstring>

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

/// y = x / (1 + slope |x|).
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

model::Tensor softsign(model::Tensor x, double slope) {
  return model::apply(x.graph(), ExternalOp{std::make_shared<Softsign>(static_cast<float>(slope))},
                      differentiate, {x}, "softsign");
}

/// Points spread evenly over a square; class 1 is a ring around the middle.
struct Rings : data::Dataset {
  explicit Rings(int first_point) : first(first_point) {}
  std::int64_t size() const override { return 8192; }
  const data::SampleSpec& spec() const override { return sample; }
  void get(std::int64_t i, std::int64_t, std::span<std::byte> input,
           std::span<std::byte> target) const override {
    const auto n = static_cast<double>(first + i);
    const std::array point{static_cast<float>(std::remainder(n * 0.7548776662, 1)),
                           static_cast<float>(std::remainder(n * 0.5698402910, 1))};
    const std::int64_t ring = std::hypot(point[0], point[1]) > 0.35F;
    std::memcpy(input.data(), point.data(), sizeof point);
    std::memcpy(target.data(), &ring, sizeof ring);
  }

  int first;
  data::SampleSpec sample{.input_shape = {2}, .num_classes = 2};
};

data::SampleSpec sample_spec(const data::DatasetOptions&) {
  return Rings(0).spec();
}

data::DatasetPtr open(const data::DatasetOptions&, data::Split split) {
  return std::make_shared<Rings>(split == data::Split::train ? 0 : 8192);
}

const model::RealArgument slope{.key = "slope", .otherwise = 1, .range = {0, 100}};

model::InputSpec wants(const model::ModelArgs&) {
  return {.shape = {2}, .num_classes = 2, .target_shape = {}};
}

model::Model make(const model::ModelArgs& args, const model::InputSpec& input) {
  return {.name = "rings_mlp",
          .forward =
              [s = slope.of(args), classes = input.num_classes](model::Tensor x) {
                x = softsign(model::linear(x, "hidden1", 32), s);
                x = softsign(model::linear(x, "hidden2", 32), s);
                return model::linear(x, "out", classes);
              },
          .label_smoothing = 0.1F};
}

void add_to(runtime::Registry& registry) {
  registry.add_dataset({.name = "rings",
                        .what = "points in a square, a ring of which is class 1",
                        .open = open,
                        .spec = sample_spec});
  registry.add_model({.name = "rings_mlp",
                      .what = "two hidden layers with softsign (--model-args slope=)",
                      .arguments = {slope},
                      .wants = wants,
                      .make = make});
  registry.add_op({.name = "softsign", .what = "x / (1 + slope |x|)", .plugin = ""});
}

}  // namespace

LOCKSTEP_PLUGIN("rings", add_to)
