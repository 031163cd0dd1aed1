#include "runtime/plan/launches.h"

#include <algorithm>
#include <stdexcept>

#include "kernels/dispatch.h"
#include "kernels/gradient_norm.h"

namespace lockstep::runtime {
namespace {

constexpr Operand step_state{.region = Region::step_state};

kernels::TensorDesc described(const model::ValueType& type) {
  return {.dtype = type.dtype, .shape = type.shape, .layout = {}};
}

/// Symbolic addresses of a graph's values.
class OperandNames {
 public:
  OperandNames(const model::Graph& graph, const ArenaPlan& arena, const ActivationPlan& activations,
               bool training)
      : graph_(graph), activations_(activations), training_(training), first_(graph.value_count()) {
    for (const ArenaSlice& slice : arena.slices) {
      const model::Parameter& parameter = graph.parameters()[slice.parameter];
      first_[index(parameter.value)] = slice.first;
      if (parameter.gradient != model::no_value) first_[index(parameter.gradient)] = slice.first;
    }
    for (const BufferSlice& slice : arena.buffers)
      first_[index(graph.buffers()[slice.buffer].value)] = slice.first;
  }

  Operand of(model::ValueId id) const {
    const model::ValueId root = activations_.storage[index(id)];
    switch (graph_.value(root).role) {
      case model::Role::input:
        return {.region = Region::input};
      case model::Role::target:
        return {.region = Region::target};
      case model::Role::step_state:
        return step_state;
      case model::Role::control:
        return control();
      case model::Role::parameter:
        return {.region = Region::parameters, .first = first_[index(root)]};
      case model::Role::buffer:
        return {.region = Region::buffers, .first = first_[index(root)]};
      case model::Role::gradient:
        return {.region = Region::gradients, .first = first_[index(root)]};
      case model::Role::activation:
        return {.region = Region::activations,
                .first = static_cast<std::int64_t>(activations_.offsets[index(root)])};
    }
    throw std::logic_error("a value without a role");
  }

  Operand control() const { return {.region = training_ ? Region::control : Region::evaluation_control}; }

 private:
  static std::size_t index(model::ValueId id) { return static_cast<std::size_t>(id); }

  const model::Graph& graph_;
  const ActivationPlan& activations_;
  bool training_;
  std::vector<std::int64_t> first_;  ///< of parameters and gradients in their arenas, by value
};

Launch node_launch(const model::Graph& graph, const model::Node& node, const OperandNames& names,
                   const kernels::Device& device) {
  Launch launch{.kernel = nullptr, .io = graph.io(node), .operands = {}};
  launch.kernel = node.op->kernel(device, launch.io);
  for (const auto* ids : {&node.inputs, &node.outputs}) {
    for (const model::ValueId id : *ids) launch.operands.push_back(names.of(id));
  }
  return launch;
}

/// Over the whole arena at once: padding is zero, and the updates wait for all of it anyway.
Launch clip_launch(const ArenaPlan& arena, double max_norm, const kernels::Device& device) {
  Launch launch{
      .kernel = nullptr,
      .io = {.inputs = {{.dtype = arena.dtype, .shape = {arena.elements}, .layout = {}}},
             .outputs = {described(kernels::step_state_type()), described(kernels::control_type())}},
      .operands = {{.region = Region::gradients}, step_state, {.region = Region::control}}};
  launch.kernel = kernels::kernel_for(device, kernels::GradientNorm{.max_norm = max_norm}, launch.io);
  return launch;
}

Launch update_launch(const Bucket& bucket, const model::OptimizerOptions& optimizer,
                     const kernels::Device& device) {
  Launch launch{.kernel = nullptr,
                .io = model::update_io(optimizer, bucket.count),
                .operands = {{.region = Region::gradients, .first = bucket.first},
                             step_state,
                             {.region = Region::parameters, .first = bucket.first}}};
  for (std::size_t state = 0; state < model::state_names(optimizer).size(); ++state) {
    launch.operands.push_back({.region = Region::optimizer_state, .first = bucket.first, .state = state});
  }
  launch.kernel = model::update_kernel(device, optimizer, launch.io);
  return launch;
}

}  // namespace

Launches prepare_launches(const model::Graph& graph, const ArenaPlan& arena,
                          const ActivationPlan& activations, const LaunchOptions& options,
                          const kernels::Device& device) {
  const OperandNames names(graph, arena, activations, options.training);
  Launches launches;
  launches.input = {.region = Region::step_input};
  launches.control = names.control();
  const kernels::BeginStep begin =
      options.training ? model::begin_step(options.optimizer) : kernels::BeginStep{.updates = 0};
  launches.begin_step = {
      .kernel = nullptr,
      .io = {.inputs = {described({DType::u8, {sizeof(kernels::StepInput)}})},
             .outputs = {described(kernels::step_state_type()), described(kernels::control_type())}},
      .operands = {launches.input, step_state, launches.control}};
  launches.begin_step.kernel = kernels::kernel_for(device, begin, launches.begin_step.io);
  for (const model::Node& node : graph.nodes()) {
    launches.nodes.push_back(node_launch(graph, node, names, device));
  }
  if (!options.training) return launches;
  if (options.clip_grad_norm > 0) launches.clip = clip_launch(arena, options.clip_grad_norm, device);
  for (const Bucket& bucket : arena.buckets) {
    launches.updates.push_back(update_launch(bucket, options.optimizer, device));
  }
  return launches;
}

}  // namespace lockstep::runtime
