#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "kernels/conv2d.h"
#include "kernels/linear.h"
#include "kernels/loss.h"
#include "kernels/pointwise.h"
#include "kernels/pool_indices.h"
#include "tests/parity/golden.h"
#include "tests/parity/kernel_machine.h"
#include "tests/support/catch.h"

namespace lockstep::parity {
namespace {

using nlohmann::json;
using Names = std::vector<std::string>;

/// One case of goldens/ops.json.
class OpCase {
 public:
  OpCase(const json& golden, LayoutChoice choice)
      : name_(golden.at("name")), parameters_(golden.at("parameters")), machine_(choice) {
    golden.at("outputs").get_to(outputs_);
    for (const auto& [name, spec] : golden.at("inputs").get<std::map<std::string, InputSpec>>()) {
      inputs_[name] = make_input(name_ + "/" + name, spec);
    }
  }

  template <class T>
  T parameter(const std::string& name) const {
    return parameters_.at(name).get<T>();
  }
  const HostTensor& input(const std::string& name) const { return inputs_.at(name); }
  bool has_input(const std::string& name) const { return inputs_.contains(name); }
  KernelMachine& machine() { return machine_; }

  /// Runs the kernel on the named inputs and compares its outputs with those of these names. A name that the
  /// case does not have (a bias, say) is left out.
  template <class Spec>
  void check(const Spec& spec, const Names& inputs, const Names& outputs) {
    std::vector<HostTensor> in, out;
    Names present;
    for (const std::string& name : inputs) {
      if (inputs_.contains(name)) in.push_back(inputs_.at(name));
    }
    for (const std::string& name : outputs) {
      if (!outputs_.contains(name)) continue;
      out.push_back(HostTensor::zeros(DType::f32, outputs_.at(name).shape));
      present.push_back(name);
    }
    machine_.run(spec, in, out);
    for (std::size_t i = 0; i < out.size(); ++i) check_output(present[i], out[i].floats());
  }

  void check_output(const std::string& name, std::span<const float> got) const {
    CHECK(difference(name_ + " " + name, outputs_.at(name), got) == "");
  }

 private:
  static HostTensor make_input(const std::string& name, const InputSpec& spec) {
    if (spec.is_integer()) {
      const auto values = spec.integers(name);
      return HostTensor::of(DType::i64, spec.shape, std::span<const std::int64_t>(values));
    }
    const auto values = spec.floats(name);
    return HostTensor::of(DType::f32, spec.shape, std::span<const float>(values));
  }

  std::string name_;
  json parameters_;
  std::map<std::string, HostTensor> inputs_;
  std::map<std::string, GoldenTensor> outputs_;
  KernelMachine machine_;
};

kernels::Activation activation_of(const OpCase& c) {
  return c.parameter<bool>("relu") ? kernels::Activation::relu : kernels::Activation::none;
}

void check_linear(OpCase& c) {
  c.check(kernels::Linear{.activation = activation_of(c), .precision = precision_under_test()},
          {"x", "w", "b"}, {"y"});
  if (!c.has_input("dy")) return;
  c.check(kernels::LinearBackwardData{precision_under_test()}, {"dy", "w"}, {"dx"});
  c.check(kernels::LinearBackwardWeights{.precision = precision_under_test()}, {"x", "dy"}, {"dw", "db"});
}

void check_conv2d(OpCase& c) {
  const kernels::Conv2dGeometry geometry{.stride = c.parameter<std::array<std::int64_t, 2>>("stride"),
                                         .padding = c.parameter<std::array<std::int64_t, 2>>("padding"),
                                         .dilation = c.parameter<std::array<std::int64_t, 2>>("dilation"),
                                         .groups = c.parameter<std::int64_t>("groups")};
  c.check(
      kernels::Conv2d{
          .geometry = geometry, .activation = activation_of(c), .precision = precision_under_test()},
      {"x", "w", "b"}, {"y"});
  if (!c.has_input("dy")) return;
  c.check(kernels::Conv2dBackwardData{.geometry = geometry, .precision = precision_under_test()}, {"dy", "w"},
          {"dx"});
  c.check(kernels::Conv2dBackwardWeights{.geometry = geometry, .precision = precision_under_test()},
          {"x", "dy"}, {"dw", "db"});
}

kernels::Pool2dGeometry pool_geometry(const OpCase& c) {
  return {.kernel = c.parameter<std::array<std::int64_t, 2>>("kernel"),
          .stride = c.parameter<std::array<std::int64_t, 2>>("stride"),
          .padding = c.parameter<std::array<std::int64_t, 2>>("padding")};
}

/// Forward keeps indices, which are what backward has in the place of x; `dx`: the name of the gradient.
void check_indexed_max_pool2d(OpCase& c, bool relu_mask, const std::string& dx) {
  const auto geometry = pool_geometry(c);
  const HostTensor& dy = c.input("dy");
  const std::vector<HostTensor> x{c.input("x")};
  std::vector<HostTensor> pooled{HostTensor::zeros(DType::f32, dy.shape),
                                 HostTensor::zeros(DType::u8, dy.shape)};
  c.machine().run(kernels::MaxPool2dWithIndices{geometry, relu_mask}, x, pooled);
  c.check_output("y", pooled[0].floats());
  std::vector<HostTensor> gradient{HostTensor::zeros(DType::f32, x[0].shape)};
  const std::vector<HostTensor> read{dy, pooled[1]};
  c.machine().run(kernels::MaxPool2dWithIndicesBackward{geometry}, read, gradient);
  c.check_output(dx, gradient[0].floats());
}

void check_max_pool2d(OpCase& c) {
  check_indexed_max_pool2d(c, false, "dx");
  const auto geometry = pool_geometry(c);
  c.check(kernels::MaxPool2d{geometry}, {"x"}, {"y"});
  c.check(kernels::MaxPool2dBackward{.geometry = geometry}, {"x", "dy"}, {"dx"});
}

void check_max_pool2d_of_relu(OpCase& c) {
  check_max_pool2d(c);
  check_indexed_max_pool2d(c, true, "dx_before_relu");
  c.check(kernels::MaxPool2dBackward{.geometry = pool_geometry(c), .relu_mask = true}, {"x", "dy"},
          {"dx_before_relu"});
}

void check_avg_pool2d(OpCase& c) {
  c.check(kernels::AvgPool2d{pool_geometry(c)}, {"x"}, {"y"});
  c.check(kernels::AvgPool2dBackward{pool_geometry(c)}, {"dy"}, {"dx"});
}

void check_relu(OpCase& c) {
  using namespace kernels;
  c.check(Pointwise::single(PointwiseFunction::relu), {"x"}, {"y"});
  // The mask y > 0 is also x > 0.
  c.check(Pointwise::single(PointwiseFunction::relu, PointwisePart::gradient), {"x", "dy"}, {"dx"});
}

/// The mean over `valid` targets, as the trainer asks for it: loss_scale = 1 / valid.
kernels::StepState state_for(std::int64_t rows, std::int64_t valid) {
  kernels::StepState state;
  state.loss_scale = 1.0F / static_cast<float>(valid);
  state.valid_samples = static_cast<std::int32_t>(rows);
  return state;
}

template <class Spec>
void check_loss(OpCase& c, const Spec& spec, const std::string& input, std::int64_t valid) {
  const HostTensor& logits = c.input(input);
  const std::vector<HostTensor> in{logits, c.input("targets"),
                                   HostTensor::of_struct(state_for(logits.shape[0], valid))};
  std::vector<HostTensor> out{HostTensor::of_struct(kernels::ControlBlock{}),
                              HostTensor::zeros(DType::f32, logits.shape)};
  c.machine().run(spec, in, out);
  const auto control = out[0].as<kernels::ControlBlock>();
  c.check_output("loss", std::span(&control.loss, 1));
  c.check_output("d" + input, out[1].floats());
  CHECK(control.targets == static_cast<float>(valid));
  CHECK(control.not_finite == 0);
}

void check_cross_entropy(OpCase& c) {
  const auto& targets = c.input("targets");
  const std::span values(reinterpret_cast<const std::int64_t*>(targets.bytes.data()),
                         static_cast<std::size_t>(targets.shape.elements()));
  const auto valid = std::ranges::count_if(values, [](std::int64_t target) { return target != -100; });
  const auto smoothing = c.parameter<float>("label_smoothing");
  check_loss(c, kernels::SoftmaxCrossEntropy{.label_smoothing = smoothing}, "logits", valid);
}

void check_mse(OpCase& c) {
  check_loss(c, kernels::MeanSquaredError{}, "y", c.input("y").shape[0]);
}

void check_op(const json& golden, LayoutChoice choice) {
  static const std::map<std::string, void (*)(OpCase&)> checks{
      {"linear", check_linear},
      {"conv2d", check_conv2d},
      {"max_pool2d", check_max_pool2d},
      {"avg_pool2d", check_avg_pool2d},
      {"relu", check_relu},
      {"cross_entropy", check_cross_entropy},
      {"mse", check_mse},
  };
  OpCase c(golden, choice);
  if (golden.at("outputs").contains("dx_before_relu")) {
    check_max_pool2d_of_relu(c);
  } else {
    checks.at(golden.at("op").get<std::string>())(c);
  }
}

}  // namespace

TEST_CASE("ops agree with PyTorch, forward and gradients") {
  const auto choice = GENERATE(LayoutChoice::plain, LayoutChoice::chosen);
  for (const json& golden : load_cases("ops")) {
    const std::string layouts = choice == LayoutChoice::plain ? ", plain layouts" : ", chosen layouts";
    DYNAMIC_SECTION(golden.at("name").get<std::string>() + layouts) {
      check_op(golden, choice);
    }
  }
}

}  // namespace lockstep::parity
