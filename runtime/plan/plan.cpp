#include "runtime/plan/plan.h"

#include <algorithm>

#include "kernels/dispatch.h"
#include "kernels/gradient_norm.h"
#include "runtime/plan/differentiate.h"
#include "runtime/plan/fuse.h"
#include "runtime/plan/precision.h"
#include "runtime/plan/storage.h"
#include "runtime/plan/tensor_cores.h"

namespace lockstep::runtime {
namespace {

/// Those that the device does not offer.
std::vector<std::string> apply_choices(model::Graph& graph, const kernels::Device& device,
                                       const AlgorithmChoices& choices) {
  std::vector<std::string> not_offered;
  for (model::Node& node : graph.nodes()) {
    const auto choice = choices.find(node.key());
    if (choice == choices.end() || choice->second == node.op->algorithm()) continue;
    const std::vector<model::OpPtr> candidates = node.op->candidates(device, graph.io(node));
    const auto chosen = std::ranges::find(
        candidates, choice->second, [](const model::OpPtr& candidate) { return candidate->algorithm(); });
    if (chosen == candidates.end())
      not_offered.push_back(choice->first + ": " + choice->second);
    else
      node.op = *chosen;
  }
  return not_offered;
}

void prepare_kernels(Plan& plan, const kernels::Device& device) {
  for (const model::Node& node : plan.graph.nodes()) {
    plan.kernels.push_back(node.op->kernel(device, plan.graph.io(node)));
    if (plan.kernels.back() == nullptr) continue;
    plan.workspace_bytes = std::max(plan.workspace_bytes, plan.kernels.back()->workspace_bytes());
  }
}

/// Over the whole arena at once: padding is zero, and the updates wait for all of it anyway.
void prepare_clipping(Plan& plan, const kernels::Device& device) {
  const auto elements = static_cast<std::int64_t>(plan.arena.parameter_bytes / sizeof(float));
  const auto desc = [](const model::ValueType& type) {
    return kernels::TensorDesc{type.dtype, type.shape, {}};
  };
  const kernels::KernelIo io{.inputs = {{DType::f32, {elements}, {}}},
                             .outputs = {desc(kernels::step_state_type()), desc(kernels::control_type())}};
  plan.gradient_norm =
      kernels::kernel_for(device, kernels::GradientNorm{.max_norm = plan.request.clip_grad_norm}, io);
  plan.workspace_bytes = std::max(plan.workspace_bytes, plan.gradient_norm->workspace_bytes());
}

std::size_t bytes_of(const model::Graph& graph, model::Role role) {
  const model::Value& value = graph.value(graph.find(role));
  return static_cast<std::size_t>(value.type.shape.elements()) * size_of(value.type.dtype);
}

}  // namespace

std::size_t Plan::input_bytes() const {
  return bytes_of(graph, model::Role::input);
}
std::size_t Plan::target_bytes() const {
  return bytes_of(graph, model::Role::target);
}

Plan make_plan(const model::Model& model, const model::InputSpec& input, const PlanRequest& request,
               const kernels::Device& device, const RunDecisions& decisions) {
  const bool training = request.mode == Mode::train;
  Plan plan;
  plan.request = request;
  plan.matmul_precision = decisions.matmul_precision;
  plan.graph = model::build_graph(model, input, request.batch_size, training);
  if (training) differentiate(plan.graph);
  fuse(plan.graph);
  set_matmul_precision(plan.graph, decisions.matmul_precision);
  settle_layouts(plan.graph, device, decisions.parameter_layouts);
  plan.choices_not_offered = apply_choices(plan.graph, device, decisions.algorithms);
  if (training) plan.arena = assign_buckets(plan.graph, request.buckets);
  plan.activations = allocate_activations(plan.graph);
  prepare_kernels(plan, device);
  ScheduleOptions schedule = request.schedule;
  schedule.clips = training && request.clip_grad_norm > 0;
  if (schedule.clips) prepare_clipping(plan, device);
  plan.steps = training ? schedule_training(plan.graph, plan.arena, schedule) : schedule_forward(plan.graph);
  const bool rounds = plan.matmul_precision != kernels::MatmulPrecision::highest;
  if (rounds && device.kind() == kernels::DeviceKind::cuda) plan.warnings = tensor_core_misses(plan.graph);
  return plan;
}

MemoryNeed memory_need(std::span<const Plan> plans, const model::OptimizerOptions& optimizer) {
  MemoryNeed need;
  for (const Plan& plan : plans) {
    need.parameters = std::max(need.parameters, plan.arena.parameter_bytes);
    need.gradients = std::max(need.gradients, plan.arena.gradient_bytes);
    need.activations = std::max(need.activations, plan.activations.bytes);
    need.workspace = std::max(need.workspace, plan.workspace_bytes);
    need.batch_slots = std::max(need.batch_slots, batch_slot_count * (round_up_to_line(plan.input_bytes()) +
                                                                      round_up_to_line(plan.target_bytes())));
  }
  need.optimizer_state = model::state_names(optimizer).size() * need.parameters;
  return need;
}

}  // namespace lockstep::runtime
