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
    case Step::Kind::gather_parameters:
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

void rewrite_forward(Plan& plan, const PlanConstraints& constraints) {
  freeze_parameters(plan.graph, constraints.freeze);
  if (!plan.request.keeps_outputs) fuse_classifier(plan.graph);
  autocast(plan.graph, constraints.compute_dtype);
  if (plan.graph.decoding) prepare_decoding(plan.graph, decodes_in(plan.key().mode));
  fuse_batch_norm(plan.graph);
  fuse_layer_norm(plan.graph, constraints.recompute);
}

void add_backward(Plan& plan, const PlanConstraints& constraints) {
  const PlanRequest& request = plan.request;
  differentiate(plan.graph, constraints.allow_unused);
  if (request.schedule.exchange && request.micro_batches == 1) {
    exchange_rows(plan.graph, {.way = constraints.embedding_exchange,
                               .ranks = request.buckets.ranks,
                               .dtype = constraints.gradient_dtype,
                               .arena = constraints.arena ? &*constraints.arena : nullptr});
  }
  if (constraints.sync_batch_norm && request.schedule.exchange) sync_batch_norm(plan.graph);
}

/// Gradients of micro-batches add up in f32, in memory of their own.
bool sums_gradients_apart(const PlanKey& key, const PlanConstraints& constraints) {
  return key.trains() && key.role != MicroBatchRole::only && constraints.gradient_dtype != DType::f32;
}

void fuse_and_set_types(Plan& plan, const PlanConstraints& constraints, const kernels::Device& device) {
  const PlanKey& key = plan.key();
  fuse(plan.graph, constraints.parameter_layouts);
  if (!device.is_cpu()) fuse_gelu(plan.graph);
  fuse_last_step(plan.graph);
  keep_pool_indices(plan.graph);
  if (key.trains() && !sums_gradients_apart(key, constraints))
    set_gradient_dtype(plan.graph, constraints.gradient_dtype);
  // Averages have no copies: their evaluation casts them.
  const bool reads_averages = !key.trains() && plan.request.average_decay > 0;
  if (is_half(constraints.compute_dtype) && !reads_averages)
    copy_parameters(plan.graph, constraints.compute_dtype);
  set_precision(plan.graph, plan.matmul_precision, plan.conv_precision);
  // A sequence in parts, from state to state, has the bits of the whole.
  const bool returns_states = plan.graph.final_states != model::no_value;
  if (plan.graph.decoding || returns_states) use_row_products(plan.graph);
}

void set_layouts(Plan& plan, const PlanConstraints& constraints, const kernels::Device& device) {
  const bool on_gpu = !device.is_cpu();
  if (on_gpu) {
    pad_pictures(plan.graph);
    pad_widths(plan.graph, constraints.parameter_layouts, plan.request.keeps_outputs);
  }
  view_splits(plan.graph);
  assign_layouts(plan.graph, device, constraints.parameter_layouts);
  if (on_gpu) absorb_copies(plan.graph);
  plan.unavailable_algorithms = apply_selected_algorithms(plan.graph, device, constraints.algorithms);
}

/// Behind all choices of layouts and algorithms.
void finish_backward(Plan& plan, const PlanConstraints& constraints) {
  const PlanKey& key = plan.key();
  if (!begins_step(key.role)) accumulate_gradients(plan.graph);
  if (sums_gradients_apart(key, constraints))
    sum_gradients_apart(plan.graph, constraints.gradient_dtype, ends_step(key.role));
  if (constraints.recompute) recompute(plan.graph);
}

bool scales_gradients(const Plan& plan) {
  return plan.compute_dtype == DType::f16;
}

ScheduleOptions schedule_options(const Plan& plan, const kernels::Device& device) {
  ScheduleOptions options = plan.request.schedule;
  options.clips = plan.request.clip_grad_norm > 0 || scales_gradients(plan);
  options.averages = plan.request.average_decay > 0;
  options.computes_behind = device.is_async();
  options.defers = plan.key().trains() && options.defers && can_defer(plan.graph, plan.arena, options);
  options.shards_updates = options.shards_updates && options.exchange && !options.clips && !options.defers;
  return options;
}

/// In the gradient arena, too, where that is idle: it is not while gradients of the step before are
/// exchanged, nor behind the first micro-batch.
ActivationPlan place_activations(const Plan& plan, const ScheduleOptions& options,
                                 std::span<const Launch> nodes) {
  const PlanKey& key = plan.key();
  const bool is_idle = key.trains() ? begins_step(key.role) && !options.defers
                                    : key.mode == Mode::evaluate && plan.arena.has_gradients;
  if (is_idle) return allocate_activations(plan.graph, plan.arena, nodes);
  return allocate_activations(plan.graph, options.defers ? GradientArena::exchanged : GradientArena::own);
}

LaunchOptions launch_options(const Plan& plan, const ScheduleOptions& options) {
  return {.key = plan.key(),
          .clips = options.clips,
          .clip_grad_norm = plan.request.clip_grad_norm,
          .average_decay = plan.request.average_decay,
          .scales_gradients = scales_gradients(plan),
          .defers_updates = options.defers,
          .optimizer = plan.request.optimizer};
}

Schedule schedule_of(const Plan& plan, const ScheduleOptions& options) {
  const MicroBatchRole role = plan.key().role;
  if (options.defers) return schedule_deferring(plan.graph, plan.arena, options, role);
  const bool exchanges = plan.key().trains() && ends_step(role);
  return exchanges ? schedule_training(plan.graph, plan.arena, options)
                   : schedule_nodes(plan.graph, plan.arena, options);
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
      const std::size_t bytes = launch->kernel->workspace_bytes();
      if (bytes > 0) end = std::max(end, begin + whole_lines(bytes));
    }
  }
  return end;
}

Plan make_plan(const model::Model& model, const model::InputSpec& input, const PlanRequest& request,
               const kernels::Device& device, const PlanConstraints& constraints) {
  Plan plan;
  plan.request = request;
  plan.matmul_precision = constraints.matmul_precision;
  plan.conv_precision = constraints.conv_precision.value_or(default_conv_precision(device));
  plan.compute_dtype = constraints.compute_dtype;
  plan.embedding_exchange = constraints.embedding_exchange;
  plan.graph = graph_for(model, input, request);
  rewrite_forward(plan, constraints);
  if (request.key.trains()) add_backward(plan, constraints);
  fuse_and_set_types(plan, constraints, device);
  set_layouts(plan, constraints, device);
  if (request.key.trains()) finish_backward(plan, constraints);
  plan.arena = constraints.arena ? *constraints.arena : assign_buckets(plan.graph, request.buckets);
  const ScheduleOptions options = schedule_options(plan, device);
  if (!constraints.arena && options.shards_updates) shard_updates(plan.arena);
  std::vector<Launch> nodes = prepare_nodes(plan.graph, device);
  plan.activations = place_activations(plan, options, nodes);
  plan.launches = prepare_launches(plan.graph, plan.arena, plan.activations, std::move(nodes),
                                   launch_options(plan, options), device);
  Schedule schedule = schedule_of(plan, options);
  plan.steps = std::move(schedule.steps);
  plan.events = std::move(schedule.events);
  plan.workspace_bytes = assign_workspace(plan.launches, plan.steps);
  if (!device.is_cpu()) plan.warnings = tensor_core_misses(plan.graph);
  return plan;
}

std::size_t gradient_sum_bytes(std::span<const Plan> plans) {
  std::size_t bytes = 0;
  for (const Plan& plan : plans) bytes = std::max(bytes, plan.gradient_sum_bytes());
  return bytes;
}

MemoryNeed memory_need(std::span<const Plan> plans) {
  using model::Role;
  const ArenaPlan& arena = plans.front().arena;
  const bool trains = plans.front().key().trains();
  const std::size_t state_bytes = static_cast<std::size_t>(updated_elements(arena)) * size_of(arena.dtype);
  const std::size_t states = model::state_names(plans.front().request.optimizer).size();
  MemoryNeed need{.parameters = arena.parameter_bytes() + arena.buffer_bytes(),
                  .parameter_copies = arena.copy_bytes(),
                  .gradients = trains ? arena.gradient_bytes() : 0,
                  .optimizer_state = trains ? states * state_bytes : 0,
                  .averages = plans.front().request.average_decay > 0 ? arena.parameter_bytes() : 0,
                  .step_state = 2 * (sizeof(kernels::StepState) + sizeof(kernels::ControlBlock)) +
                                arena.statistics_bytes()};
  // A plan that is only looked at may have an exchange with nobody, which a run of one rank has not.
  if (plans.front().request.buckets.ranks > 1) need.gradients += static_cast<std::size_t>(arena.rows_bytes);
  for (const Plan& plan : plans) {
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
  need.gradients += gradient_sum_bytes(plans);
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
