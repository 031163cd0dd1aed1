// The models of nemesis: mlp and gpt2 of the zoo and a small residual network, with a gate behind forward. It
// tells the hook (hook.cpp), where that is loaded, of each forward and each backward pass.
#include <dlfcn.h>

#include <cstring>
#include <memory>

#include "runtime/plugin/plugin.h"
#include "tests/fault/nemesis/hook.h"

using namespace lockstep;
using model::Tensor;

namespace {

using kernels::Addresses;
using kernels::ExternalOp;

/// y = x
struct Gate : kernels::ExternalRules {
  explicit Gate(const char* direction_of_this) : direction(direction_of_this) {}
  std::string plugin() const override { return "nemesis"; }
  std::string name() const override { return "gate"; }
  kernels::Types infer(kernels::TypeSpan in) const override { return {in[0]}; }

  kernels::ExternalKernel cpu_kernel(const kernels::KernelIo& io) const override {
    const auto& y = io.outputs[0];
    const std::size_t bytes = static_cast<std::size_t>(y.shape.elements()) * size_of(y.dtype);
    const auto tell = reinterpret_cast<nemesis::GateFunction>(dlsym(RTLD_DEFAULT, nemesis::gate_function));
    return {.run = [bytes, tell, gate = direction](const Addresses& a) {
      if (tell != nullptr) tell(gate);
      std::memcpy(a.out(0), a.in(0), bytes);
    }};
  }

  const char* direction;
};

void differentiate(const ExternalOp&, model::Backward& backward) {
  backward.add_gradients(ExternalOp{std::make_shared<Gate>("backward")}, {backward.output_gradient()}, {0});
}

Tensor gate(Tensor x) {
  return model::apply(x.graph(), ExternalOp{std::make_shared<Gate>("forward")}, differentiate, {x}, "gate");
}

template <const char* const& name>
model::ZooEntry gated() {
  model::ZooEntry entry = *model::find_entry(model::zoo(), name);
  entry.name = std::string("nemesis_") + name;
  entry.make = [](const model::ModelArgs& args, const model::InputSpec& input) {
    model::Model model = model::find_entry(model::zoo(), name)->make(args, input);
    model.forward = [forward = model.forward](Tensor x) { return gate(forward(x)); };
    return model;
  };
  return entry;
}

constexpr const char* mlp = "mlp";
constexpr const char* gpt2 = "gpt2";

Tensor normed(Tensor x, const std::string& number) {
  x = conv2d(x, "conv" + number, {.out_channels = 8, .kernel = 3, .padding = 1, .bias = false});
  return batch_norm2d(x, "bn" + number);
}

/// ResNet's basic block between its first and last layers.
Tensor residual(Tensor x) {
  x = max_pool2d(relu(normed(x, "1")), {.kernel = 2});
  x = segment(x, [](Tensor in) { return relu(add(normed(relu(normed(in, "2")), "3"), in)); });
  return gate(linear(flatten(adaptive_avg_pool2d(x, 1, 1)), "fc", 10));
}

void add_to(runtime::Registry& registry) {
  registry.add_model(gated<mlp>());
  registry.add_model(gated<gpt2>());
  registry.add_model(
      {.name = "nemesis_residual",
       .what = "",
       .arguments = {},
       .wants =
           [](const model::ModelArgs&) {
             return model::InputSpec{.shape = {3, 32, 32}, .num_classes = 10, .target_shape = {}};
           },
       .make =
           [](const model::ModelArgs&, const model::InputSpec&) {
             return model::Model{.name = "nemesis_residual", .forward = residual};
           }});
  registry.add_op({.name = "gate", .what = "y = x", .plugin = ""});
}

}  // namespace

LOCKSTEP_PLUGIN("nemesis", add_to)
