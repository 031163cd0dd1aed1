// Networks with a gate: in front of a batch norm's exchange, forward and backward, or of that of an
// embedding's rows, backward. At the third step the rank GATE_RANK waits at the gate GATE (forward, backward)
// for ever, while the others pass and wait in the exchange.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "runtime/plugin/plugin.h"

using namespace lockstep;

namespace {

using kernels::Addresses;
using kernels::ExternalOp;

constexpr int gated_step = 3;

std::string_view setting(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? std::string_view() : text;
}

void tell(std::string_view line) {
  if (write(STDOUT_FILENO, line.data(), line.size()) < 0) _exit(1);
}

void pass_gate() {
  if (setting("RANK") != setting("GATE_RANK")) return tell("past the gate\n");
  tell("at the gate\n");
  while (true) pause();
}

/// y = x, and a gate in the step's `phase`.
struct Gate : kernels::ExternalRules {
  explicit Gate(std::string_view phase_of_this) : phase(phase_of_this) {}
  std::string plugin() const override { return "gated"; }
  std::string name() const override { return "gate"; }
  kernels::Types infer(kernels::TypeSpan in) const override { return {in[0]}; }

  kernels::ExternalKernel cpu_kernel(const kernels::KernelIo& io) const override {
    const std::size_t bytes = static_cast<std::size_t>(io.outputs[0].shape.elements()) * sizeof(float);
    const auto launches = std::make_shared<int>(0);
    return {.run = [bytes, launches, is_gate = setting("GATE") == phase](const Addresses& a) {
      std::memcpy(a.out(0), a.in(0), bytes);
      if (is_gate && ++*launches == gated_step) pass_gate();
    }};
  }

  std::string_view phase;
};

void differentiate(const ExternalOp&, model::Backward& backward) {
  backward.add_gradients(ExternalOp{std::make_shared<Gate>("backward")}, {backward.output_gradient()}, {0});
}

model::Tensor gate(model::Tensor x, std::string_view phase) {
  return model::apply(x.graph(), ExternalOp{std::make_shared<Gate>(phase)}, differentiate, {x}, "gate");
}

model::Tensor forward(model::Tensor x) {
  x = conv2d(x, "conv", {.out_channels = 8, .kernel = 3, .padding = 1, .bias = false});
  x = gate(batch_norm2d(gate(x, "forward"), "bn"), "");
  return linear(flatten(relu(x)), "fc", 10);
}

model::Tensor forward_of_tokens(model::Tensor x) {
  return linear(gate(embedding(x, "wte", 500, 8), ""), "fc", 10);
}

model::InputSpec wants_tokens(const model::ModelArgs&) {
  return {.shape = {4}, .num_classes = 10, .target_shape = {4}, .dtype = DType::i64, .vocab_size = 500};
}

model::Model make_of_tokens(const model::ModelArgs&, const model::InputSpec&) {
  return {.name = "gated_rows", .forward = forward_of_tokens};
}

model::InputSpec wants(const model::ModelArgs&) {
  return {.shape = {3, 8, 8}, .num_classes = 10, .target_shape = {}};
}

model::Model make(const model::ModelArgs&, const model::InputSpec&) {
  return {.name = "gated", .forward = forward};
}

void add_to(runtime::Registry& registry) {
  registry.add_model({.name = "gated", .what = "", .arguments = {}, .wants = wants, .make = make});
  registry.add_model(
      {.name = "gated_rows", .what = "", .arguments = {}, .wants = wants_tokens, .make = make_of_tokens});
  registry.add_op({.name = "gate", .what = "y = x", .plugin = ""});
}

}  // namespace

LOCKSTEP_PLUGIN("gated", add_to)
