// A plugin whose model has the name of a built-in one.
#include "runtime/plugin/plugin.h"

using namespace lockstep;

namespace {

model::InputSpec wants(const model::ModelArgs&) {
  return {.shape = {2}, .num_classes = 2, .target_shape = {}};
}

model::Model make(const model::ModelArgs&, const model::InputSpec&) {
  return {.name = "mlp", .forward = [](model::Tensor x) { return model::linear(x, "fc", 2); }};
}

void add_to(runtime::Registry& registry) {
  registry.add_model({.name = "mlp", .what = "", .arguments = {}, .wants = wants, .make = make});
}

}  // namespace

LOCKSTEP_PLUGIN("second", add_to)
