#include "runtime/run/practice_replica.h"

#include <algorithm>
#include <string>

#include "kernels/base/philox.h"
#include "kernels/step_state.h"
#include "runtime/run/run_plans.h"
#include "runtime/weights/parameter_io.h"

namespace lockstep::runtime {
namespace {

constexpr std::size_t slot = 0;

/// Of one step of several micro-batches, in their order without repetitions.
std::vector<MicroBatchRole> roles_of(std::int64_t micro_batches) {
  using enum MicroBatchRole;
  if (micro_batches == 1) return {only};
  if (micro_batches == 2) return {first, last};
  return {first, middle, last};
}

bool takes_floats(const model::Graph& graph) {
  for (std::size_t id = 0; id < graph.value_count(); ++id) {
    const model::Value& value = graph.value(static_cast<model::ValueId>(id));
    if (value.role == model::Role::input && value.type.dtype != DType::f32) return false;
  }
  return true;
}

}  // namespace

std::vector<Plan> plan_practice_step(const Options& options, const TrainingTask& task,
                                     kernels::Device& device, comm::Communicator& node) {
  PlanConstraints constraints = plan_constraints(options);
  std::vector<Plan> plans;
  const std::int64_t batch = batch_size_per_rank(options, 1);
  for (const MicroBatchRole role : roles_of(options.accumulate_steps)) {
    PlanRequest request = training_request(options, {.role = role, .batch = batch}, 1,
                                           {.exchange = false, .defers = !options.sync_bn});
    request.buckets.fine = false;  // these are the node's own
    const auto plan = [&] { return make_plan(task.model, task.input, request, device, constraints); };
    plans.push_back(plan());
    if (plans.size() > 1) continue;
    constraints.parameter_layouts = parameter_layouts(plans.front().graph);
    if (options.benchmark) {
      const bool selects = node.world().rank == 0;
      KnownAlgorithms known;
      const std::string selected =
          selects ? to_text(benchmark_algorithms(plans.front().graph, device, known).selected)
                  : std::string();
      constraints.algorithms = selected_algorithms_from(node.all_gather(selected).front());
      plans.front() = plan();
    }
    constraints.arena = plans.front().arena;
  }
  return plans;
}

PracticeReplica::PracticeReplica(const Options& options, std::span<const Plan> plans, kernels::Device& device,
                                 comm::Communicator& node)
    : plans_(plans), memory_(device, node, plans), executor_(device, node, memory_) {
  std::size_t most_steps = 0;
  for (const Plan& plan : plans) most_steps = std::max(most_steps, plan.steps.size());
  ends_.resize(most_steps);
  executor_.note_step_ends(ends_);
  ParameterIO(device, plans.front(), memory_).initialise(options.seed);
  set_input(options, device);
}

/// Numbers of classes, tokens and kept samples are 0, which they all have.
void PracticeReplica::set_input(const Options& options, kernels::Device& device) {
  const Plan& plan = plans_.front();
  const auto stream = device.make_stream();
  const auto upload = [&](void* to, const auto& values) {
    const std::span bytes = std::as_bytes(std::span(values));
    device.copy_to_device(to, bytes.data(), bytes.size(), *stream);
    stream->synchronize();
  };
  const auto clear = [&](void* to, std::size_t bytes) { upload(to, std::vector<std::byte>(bytes)); };
  if (takes_floats(plan.graph)) {
    std::vector<float> numbers(plan.bytes_of(model::Role::input) / sizeof(float));
    Philox(options.seed, 0).normals(0, numbers);
    upload(memory_.input(slot), numbers);
  } else {
    clear(memory_.input(slot), plan.bytes_of(model::Role::input));
  }
  clear(memory_.target(slot), plan.bytes_of(model::Role::target));
  const std::size_t states = plan.bytes_of(model::Role::states);
  if (states > 0) clear(memory_.states(slot), states);
  const auto batch = static_cast<float>(plan.key().batch);
  kernels::StepInput& step = memory_.host_input(slot);
  step.state.valid_samples = static_cast<std::int32_t>(plan.key().batch);
  step.state.loss_scale = 1 / (batch * static_cast<float>(options.accumulate_steps));
  step.state.learning_rate = options.optimizer.learning_rate;
}

double PracticeReplica::run(const Plan& plan) {
  std::ranges::fill(ends_, Clock::time_point());
  start_ = Clock::now();
  executor_.run(plan, slot);
  return Seconds(Clock::now() - start_).count();
}

}  // namespace lockstep::runtime
