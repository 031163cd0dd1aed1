// A small network with batch norm, for the runs of batch_norm.cpp: ResNet's block on synthetic pictures.
#include "runtime/plugin/plugin.h"

using namespace lockstep;
using model::Tensor;

namespace {

model::InputSpec wants(const model::ModelArgs&) {
  return {.shape = {3, 12, 12}, .num_classes = 10, .target_shape = {}};
}

Tensor normed(Tensor x, const std::string& number) {
  return batch_norm2d(
      conv2d(x, "conv" + number, {.out_channels = 18, .kernel = 3, .padding = 1, .bias = false}),
      "bn" + number);
}

Tensor forward(Tensor x) {
  const Tensor identity = relu(normed(x, "1"));
  x = relu(add(normed(relu(normed(identity, "2")), "3"), identity));
  return linear(flatten(avg_pool2d(x, {.kernel = 6})), "fc", 10);
}

model::Model make(const model::ModelArgs&, const model::InputSpec&) {
  return {.name = "normed", .forward = forward};
}

void add_to(runtime::Registry& registry) {
  registry.add_model({.name = "normed", .what = "", .arguments = {}, .wants = wants, .make = make});
}

}  // namespace

LOCKSTEP_PLUGIN("normed", add_to)
