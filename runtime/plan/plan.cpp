#include "runtime/plan/plan.h"

#include <algorithm>
#include <utility>

#include "kernels/base/alignment.h"
#include "kernels/step_state.h"
#include "runtime/plan/algorithms.h"
#include "runtime/plan/bucket.h"
#include "runtime/plan/file_layout.h"
#include "runtime/plan/passes/passes.h"
#include "runtime/plan/print.h"

namespace lockstep::runtime {
namespace {

template <class AnyLaunches>
auto* launch_at(AnyLaunches& launches, const Step& step) {
  switch (step.kind) {
    case Step::Kind::begin_step:
      return &launches.begin_step;
    case Step::Kind::launch:
      return &launches.nodes[step.index];
    case Step::Kind::add_rows:
      return &launches.add_rows[step.index];
    case Step::Kind::clip:
      return &launches.clip;
    case Step::Kind::update:
      return &launches.updates[step.index];
    case Step::Kind::average:
      return &launches.averages[step.index];
    case Step::Kind::end_step:
      return &launches.end_step;
    case Step::Kind::record:
    case Step::Kind::wait:
    case Step::Kind::all_reduce:
    case Step::Kind::all_reduce_inline:
    case Step::Kind::sum_statistics:
    case Step::Kind::gather_rows:
    case Step::Kind::gather_rows_inline:
    case Step::Kind::await_compute:
    case Step::Kind::join:
    case Step::Kind::hand_over_held:
    case Step::Kind::await_bucket:
    case Step::Kind::await_rows:
    case Step::Kind::keep_state:
      break;
  }
  return static_cast<decltype(&launches.clip)>(nullptr);
}

Decodes decodes_in(Mode mode) {
  if (mode == Mode::encode) return Decodes::source;
  return mode == Mode::decode ? Decodes::output : Decodes::fill;
}

model::Graph graph_for(const model::Model& model, const model::InputSpec& input, const PlanRequest& request) {
  const PlanKey& key = request.key;
  if (key.mode == Mode::train || key.mode == Mode::evaluate) {
    return model::build_graph(model, model::cut_to(input, key.length), key.batch, key.trains(),
                              request.returns_states);
  }
  return model::build_decoding(model, input, key.batch, key.length, request.cache_capacity, request.branches);
}

}  // namespace

std::size_t Plan::gradient_sum_bytes() const {
  const auto sums_apart = [](const model::Parameter& parameter) {
    return parameter.gradient_sum != model::no_value;
  };
  return std::ranges::any_of(graph.parameters(), sums_apart)
             ? static_cast<std::size_t>(arena.elements) * sizeof(float)
             : 0;
}

std::size_t Plan::bytes_of(model::Role role) const {
  const model::ValueId id = graph.find(role);
  if (id == model::no_value) return 0;
  const model::ValueType& type = graph.value(id).type;
  return static_cast<std::size_t>(type.shape.elements()) * size_of(type.dtype);
}

const Launch* Plan::launch_of(const Step& step) const {
  return launch_at(launches, step);
}

std::size_t assign_workspace(Launches& launches, std::span<const Step> steps) {
  std::size_t end = 0;
  for (const StreamName stream : {StreamName::compute, StreamName::exchange, StreamName::update}) {
    const std::size_t begin = rounded_up(end, workspace_alignment);
    for (const Step& step : steps) {
      Launch* const launch = step.stream == stream ? launch_at(launches, step) : nullptr;
      if (launch == nullptr || launch->kernel == nullptr) continue;
      if (launch->workspace.region != Region::workspace) continue;
      launch->workspace.first = static_cast<std::int64_t>(begin);
      end = std::max(end, begin + whole_lines(launch->kernel->workspace_bytes()));
    }
  }
  return end;
}

namespace {

Schedule schedule_of(const Plan& plan, const ScheduleOptions& options) {
  const MicroBatchRole role = plan.key().role;
  if (options.defers) return schedule_deferring(plan.graph, plan.arena, options, role);
  const bool exchanges = plan.key().trains() && ends_step(role);
  return exchanges ? schedule_training(plan.graph, plan.arena, options) : schedule_nodes(plan.graph, options);
}

}  // namespace

Plan make_plan(const model::Model& model, const model::InputSpec& input, const PlanRequest& request,
               const kernels::Device& device, const PlanConstraints& constraints) {
  const bool on_gpu = !device.is_cpu();
  const bool training = request.key.trains();
  const MicroBatchRole role = request.key.role;
  const bool sums_apart =
      training && role != MicroBatchRole::only && constraints.gradient_dtype != DType::f32;
  Plan plan;
  plan.request = request;
  plan.matmul_precision = constraints.matmul_precision;
  plan.conv_precision = constraints.conv_precision.value_or(default_conv_precision(device));
  plan.compute_dtype = constraints.compute_dtype;
  plan.embedding_exchange = constraints.embedding_exchange;
  plan.graph = graph_for(model, input, request);
  freeze_parameters(plan.graph, constraints.freeze);
  if (!request.keeps_outputs) fuse_classifier(plan.graph);
  autocast(plan.graph, constraints.compute_dtype);
  if (plan.graph.decoding) prepare_decoding(plan.graph, decodes_in(request.key.mode));
  fuse_batch_norm(plan.graph);
  fuse_layer_norm(plan.graph, constraints.recompute);
  if (training) differentiate(plan.graph, constraints.allow_unused);
  if (training && request.schedule.exchange && request.micro_batches == 1) {
    exchange_rows(plan.graph, {.way = constraints.embedding_exchange,
                               .ranks = request.buckets.ranks,
                               .dtype = constraints.gradient_dtype,
                               .arena = constraints.arena ? &*constraints.arena : nullptr});
  }
  if (training && constraints.sync_batch_norm && request.schedule.exchange) sync_batch_norm(plan.graph);
  fuse(plan.graph, constraints.parameter_layouts);
  if (on_gpu) fuse_gelu(plan.graph);
  keep_pool_indices(plan.graph);
  if (training && !sums_apart) set_gradient_dtype(plan.graph, constraints.gradient_dtype);
  // Averages have no copies: their evaluation casts them.
  const bool reads_averages = !training && request.average_decay > 0;
  if (is_half(constraints.compute_dtype) && !reads_averages)
    copy_parameters(plan.graph, constraints.compute_dtype);
  set_precision(plan.graph, plan.matmul_precision, plan.conv_precision);
  // A sequence in parts, from state to state, has the bits of the whole.
  const bool returns_states = plan.graph.final_states != model::no_value;
  if (plan.graph.decoding || returns_states) use_row_products(plan.graph);
  if (on_gpu) {
    pad_pictures(plan.graph);
    pad_widths(plan.graph, constraints.parameter_layouts, request.keeps_outputs);
  }
  assign_layouts(plan.graph, device, constraints.parameter_layouts);
  if (on_gpu) absorb_copies(plan.graph);
  plan.unavailable_algorithms = apply_selected_algorithms(plan.graph, device, constraints.algorithms);
  if (training && !begins_step(role)) accumulate_gradients(plan.graph);
  if (sums_apart) sum_gradients_apart(plan.graph, constraints.gradient_dtype, ends_step(role));
  if (training && constraints.recompute) recompute(plan.graph);
  plan.arena = constraints.arena ? *constraints.arena : assign_buckets(plan.graph, request.buckets);
  const bool scales_gradients = constraints.compute_dtype == DType::f16;
  ScheduleOptions options = request.schedule;
  options.clips = request.clip_grad_norm > 0 || scales_gradients;
  options.averages = request.average_decay > 0;
  options.computes_behind = device.is_async();
  options.defers = training && options.defers && can_defer(plan.graph, plan.arena, options);
  // Not while those of the step before are exchanged, and not those of micro-batches before this one.
  const bool is_idle = training ? begins_step(role) && !options.defers
                                : request.key.mode == Mode::evaluate && plan.arena.has_gradients;
  std::vector<Launch> nodes = prepare_nodes(plan.graph, device);
  plan.activations = is_idle ? allocate_activations(plan.graph, plan.arena, nodes)
                             : allocate_activations(plan.graph, options.defers ? GradientArena::exchanged
                                                                               : GradientArena::own);
  plan.launches = prepare_launches(plan.graph, plan.arena, plan.activations, std::move(nodes),
                                   {.key = request.key,
                                    .clips = options.clips,
                                    .clip_grad_norm = request.clip_grad_norm,
                                    .average_decay = request.average_decay,
                                    .scales_gradients = scales_gradients,
                                    .defers_updates = options.defers,
                                    .optimizer = request.optimizer},
                                   device);
  Schedule schedule = schedule_of(plan, options);
  plan.steps = std::move(schedule.steps);
  plan.events = std::move(schedule.events);
  plan.workspace_bytes = assign_workspace(plan.launches, plan.steps);
  if (on_gpu) plan.warnings = tensor_core_misses(plan.graph);
  return plan;
}

MemoryNeed memory_need(std::span<const Plan> plans) {
  using model::Role;
  const ArenaPlan& arena = plans.front().arena;
  const bool trains = plans.front().key().trains();
  const std::size_t states = model::state_names(plans.front().request.optimizer).size();
  MemoryNeed need{.parameters = arena.parameter_bytes() + arena.buffer_bytes(),
                  .parameter_copies = arena.copy_bytes(),
                  .gradients = trains ? arena.gradient_bytes() : 0,
                  .optimizer_state = trains ? states * arena.bytes() : 0,
                  .averages = plans.front().request.average_decay > 0 ? arena.parameter_bytes() : 0,
                  .step_state = 2 * (sizeof(kernels::StepState) + sizeof(kernels::ControlBlock)) +
                                arena.statistics_bytes()};
  // A plan that is only looked at may have an exchange with nobody, which a run of one rank has not.
  if (plans.front().request.buckets.ranks > 1) need.gradients += static_cast<std::size_t>(arena.rows_bytes);
  std::size_t gradient_sums = 0;
  for (const Plan& plan : plans) {
    gradient_sums = std::max(gradient_sums, plan.gradient_sum_bytes());
    need.activations =
        std::max({need.activations, plan.activations.bytes, whole_lines(conversion_bytes(plan.graph))});
    need.caches = std::max(need.caches, plan.activations.cache_bytes);
    need.workspace = std::max(need.workspace, plan.workspace_bytes);
    need.stored = std::max(need.stored, plan.bytes_of(Role::stored));
    std::size_t slot = 0;
    for (const Role role : {Role::input, Role::target, Role::states, Role::positions, Role::cache_rows})
      slot += whole_lines(plan.bytes_of(role));
    need.batch_slots = std::max(need.batch_slots, batch_slot_count * slot);
  }
  need.gradients += gradient_sums;
  return need;
}

std::size_t staged_bytes(const Plan& plan) {
  const std::size_t states =
      model::state_names(plan.request.optimizer).size() + (plan.request.average_decay > 0 ? 1 : 0);
  std::size_t copies = 0;
  for (const model::Parameter& parameter : plan.graph.parameters()) {
    copies += static_cast<std::size_t>(parameter.file_shape.elements()) * (parameter.frozen ? 1 : 1 + states);
  }
  return copies * sizeof(float) + plan.arena.buffer_bytes();
}

}  // namespace lockstep::runtime
