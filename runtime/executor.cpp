#include "runtime/executor.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "kernels/base/deadline.h"

namespace lockstep::runtime {
namespace {

std::int64_t nanoseconds_since(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

std::string label_of(const Plan& plan, const Step& step) {
  const auto bucket = [&] {
    return fmt::format("bucket {} ({})", step.index, plan.arena.buckets[step.index].first_parameter);
  };
  switch (step.kind) {
    case Step::Kind::launch: {
      const model::Node& node = plan.graph.nodes()[step.index];
      return node.layer.empty() ? std::string(node.op->name())
                                : fmt::format("{} {}", node.layer, node.op->name());
    }
    case Step::Kind::exchange:
    case Step::Kind::exchange_now:
      return "exchange of " + bucket();
    case Step::Kind::clip:
      return "clipping of gradients";
    case Step::Kind::update:
      return "update of " + bucket();
  }
  return {};
}

bool has(const std::vector<Step>& steps, Step::Kind kind) {
  return std::ranges::find(steps, kind, &Step::kind) != steps.end();
}

std::vector<std::vector<std::string>> labels_of(std::span<const Plan> plans) {
  std::vector<std::vector<std::string>> labels;
  for (const Plan& plan : plans) {
    labels.emplace_back();
    for (const Step& step : plan.steps) labels.back().push_back(label_of(plan, step));
  }
  return labels;
}

}  // namespace

Executor::Executor(kernels::Device& device, comm::Communicator& communicator, ReplicaMemory& memory,
                   std::span<const Plan> plans, const model::OptimizerOptions& optimizer)
    : device_(device),
      communicator_(communicator),
      arena_(plans.front().arena),
      stream_(device.make_stream()),
      exchange_stream_(device.make_stream(kernels::StreamPriority::high)),
      backward_done_(device.make_event()),
      step_exchanged_(device.make_event()),
      run_done_(device.make_event()),
      whereabouts_(std::make_shared<Whereabouts>(labels_of(plans))) {
  for (std::size_t i = 0; i < arena_.buckets.size(); ++i) {
    events_.push_back({.gradients_ready = device.make_event(),
                       .summed = device.make_event(),
                       .parameters_free = device.make_event()});
  }
  bool overlaps = false;
  for (const Plan& plan : plans) {
    BoundPlan& bound = plans_.emplace_back(BoundPlan{.steps = plan.steps, .slots = {}});
    bound.exchanges = has(plan.steps, Step::Kind::exchange) || has(plan.steps, Step::Kind::exchange_now);
    bound.uses_exchange_stream = bound.exchanges && communicator.on_streams();
    for (std::size_t slot = 0; slot < batch_slot_count; ++slot) {
      bound.slots.push_back({.nodes = bind_nodes(plan, memory, slot)});
    }
    overlaps |= has(plan.steps, Step::Kind::exchange);
  }
  bind_updates(device, memory, optimizer);
  if (const auto& norm = plans.front().gradient_norm) {
    const std::array<void*, 3> args{memory.gradients(), memory.step_state(), memory.training_control()};
    gradient_norm_ = norm->bind(args, memory.workspace());
  }
  if (overlaps && !communicator_.on_streams()) {
    queue_ = std::make_unique<ExchangeQueue>(arena_.buckets.size(),
                                             [this](std::size_t bucket) { exchange(bucket, true); });
  }
}

Executor::BoundNodes Executor::bind_nodes(const Plan& plan, ReplicaMemory& memory, std::size_t slot) const {
  BoundNodes bound;
  for (std::size_t at = 0; at < plan.graph.nodes().size(); ++at) {
    const model::Node& node = plan.graph.nodes()[at];
    std::vector<void*> args;
    for (const auto* ids : {&node.inputs, &node.outputs}) {
      for (const model::ValueId id : *ids) args.push_back(memory.address(plan, id, slot));
    }
    const auto& kernel = plan.kernels[at];
    bound.push_back(kernel == nullptr ? nullptr : kernel->bind(args, memory.workspace()));
  }
  return bound;
}

void Executor::bind_updates(kernels::Device& device, ReplicaMemory& memory,
                            const model::OptimizerOptions& optimizer) {
  const std::size_t states = model::state_names(optimizer).size();
  for (const Bucket& bucket : arena_.buckets) {
    const std::size_t end = std::min(bucket.offset + bucket.bytes, arena_.parameter_bytes);
    const auto elements = static_cast<std::int64_t>((end - bucket.offset) / sizeof(float));
    std::vector<void*> args{memory.gradients() + bucket.offset, memory.step_state(),
                            memory.parameters() + bucket.offset};
    for (std::size_t i = 0; i < states; ++i) args.push_back(memory.optimizer_state(i) + bucket.offset);
    update_kernels_.push_back(model::prepare_update(device, optimizer, elements));
    updates_.push_back(update_kernels_.back()->bind(args, memory.workspace()));
  }
}

StepTiming Executor::launch(std::size_t plan, std::size_t slot) {
  const auto start = Clock::now();
  timing_ = {};
  replay_or_walk(plan, slot);
  timing_.launch_ns = nanoseconds_since(start);
  return timing_;
}

StepTiming Executor::run(std::size_t plan, std::size_t slot) {
  const auto start = Clock::now();
  StepTiming timing = launch(plan, slot);
  stream_->record(*run_done_);
  communicator_.wait(*run_done_);
  timing.total_ns = nanoseconds_since(start);
  return timing;
}

void Executor::replay_or_walk(std::size_t plan, std::size_t slot) {
  BoundSlot& bound = plans_[plan].slots[slot];
  if (uses_graphs_ && bound.has_run && bound.graph == nullptr) {
    bound.graph = device_.capture(*stream_, [&] { walk(plan, bound.nodes); });
  }
  if (bound.graph != nullptr) {
    bound.graph->launch(*stream_);
  } else {
    walk(plan, bound.nodes);
  }
  bound.has_run = true;
}

void Executor::walk(std::size_t plan, const BoundNodes& nodes) {
  const std::vector<Step>& steps = plans_[plan].steps;
  for (std::size_t at = 0; at < steps.size(); ++at) {
    const Step& step = steps[at];
    whereabouts_->run(plan, at);
    switch (step.kind) {
      case Step::Kind::launch:
        if (nodes[step.index] != nullptr) nodes[step.index]->launch(*stream_);
        break;
      case Step::Kind::exchange:
        start_exchange(step.index);
        break;
      case Step::Kind::exchange_now:
        exchange_on_this_thread(step.index);
        break;
      case Step::Kind::clip:
        clip(plans_[plan]);
        break;
      case Step::Kind::update:
        update(plans_[plan], step.index);
        break;
    }
  }
  if (plans_[plan].uses_exchange_stream) {
    exchange_stream_->record(*step_exchanged_);
    stream_->wait(*step_exchanged_);
  }
}

void Executor::start_exchange(std::size_t bucket) {
  stream_->record(*events_[bucket].gradients_ready);
  if (queue_ != nullptr) {
    queue_->post(bucket);
  } else {
    exchange(bucket, false);
  }
}

/// It writes StepState and the workspace, which backward uses, too.
void Executor::clip(const BoundPlan& plan) {
  if (plan.uses_exchange_stream) {
    stream_->record(*backward_done_);
    exchange_stream_->wait(*backward_done_);
    gradient_norm_->launch(*exchange_stream_);
    return;
  }
  if (plan.exchanges) {
    wait_for_exchanges();
    for (const BucketEvents& events : events_) stream_->wait(*events.summed);
  }
  gradient_norm_->launch(*stream_);
}

void Executor::update(const BoundPlan& plan, std::size_t bucket) {
  const BucketEvents& events = events_[bucket];
  if (plan.uses_exchange_stream) {
    stream_->record(*events.parameters_free);
    exchange_stream_->wait(*events.parameters_free);
    updates_[bucket]->launch(*exchange_stream_);
    return;
  }
  if (plan.exchanges) {
    if (bucket == 0) wait_for_exchanges();
    stream_->wait(*events.summed);
  }
  updates_[bucket]->launch(*stream_);
}

void Executor::exchange(std::size_t index, bool behind_compute) {
  const Bucket& bucket = arena_.buckets[index];
  const BucketEvents& events = events_[index];
  exchange_stream_->wait(*events.gradients_ready);
  const comm::ExchangeTiming timing =
      communicator_.all_reduce(bucket.offset, bucket.bytes / sizeof(float), DType::f32,
                               {.bucket = static_cast<int>(index),
                                .first_parameter = bucket.first_parameter,
                                .behind_compute = behind_compute},
                               *exchange_stream_);
  if (!communicator_.on_streams()) exchange_stream_->record(*events.summed);
  timing_.transfer_ns += timing.transfer_ns;
  timing_.skew_ns += timing.skew_ns;
}

/// In order behind what the queue still does: a communicator serves one thread at a time.
void Executor::exchange_on_this_thread(std::size_t bucket) {
  const auto start = Clock::now();
  if (queue_ != nullptr) queue_->wait_all();
  stream_->record(*events_[bucket].gradients_ready);
  exchange(bucket, false);
  timing_.exposed_ns += nanoseconds_since(start);
}

void Executor::wait_for_exchanges() {
  if (queue_ == nullptr) return;
  const auto start = Clock::now();
  queue_->wait_all();
  timing_.exposed_ns += nanoseconds_since(start);
}

}  // namespace lockstep::runtime
