#include "runtime/step/executor.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "runtime/plan/print.h"

namespace lockstep::runtime {
namespace {

std::int64_t nanoseconds_since(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

}  // namespace

void StepTiming::add_parts(const StepTiming& other) {
  launch_ns += other.launch_ns;
  exposed_ns += other.exposed_ns;
  transfer_ns += other.transfer_ns;
  skew_ns += other.skew_ns;
}

void StepTiming::add(const comm::ExchangeTiming& exchange) {
  exposed_ns += exchange.exposed_ns;
  transfer_ns += exchange.transfer_ns;
  skew_ns += exchange.skew_ns;
}

std::size_t StepTracker::add_plan(std::vector<std::string> labels) {
  const std::lock_guard lock(mutex_);
  labels_.push_back(std::move(labels));
  return labels_.size() - 1;
}

std::string StepTracker::label_at(std::uint64_t position) const {
  const std::size_t plan = position >> 32;
  const std::size_t step = position & 0xFFFFFFFF;
  const std::lock_guard lock(mutex_);
  return plan < labels_.size() && step < labels_[plan].size() ? labels_[plan][step] : "the beginning";
}

std::string StepTracker::describe() const {
  const std::int64_t number = number_.load(std::memory_order_relaxed);
  const std::string label = label_at(position_.load(std::memory_order_relaxed));
  switch (phase_.load(std::memory_order_relaxed)) {
    case Phase::setting_up:
      return "setting up";
    case Phase::loading:
      return fmt::format("step {}, loading", number);
    case Phase::computing:
      return fmt::format("step {}, {}", number, label);
    case Phase::evaluating:
      return fmt::format("evaluation after step {}, {}", number, label);
    case Phase::saving:
      return fmt::format("checkpoint of step {}", number);
  }
  return {};
}

Executor::Executor(kernels::Device& device, comm::Communicator& communicator, const ReplicaMemory& memory)
    : device_(device),
      communicator_(communicator),
      memory_(memory),
      streams_{device.make_stream(), device.make_stream(kernels::StreamPriority::high), device.make_stream()},
      run_done_(device.make_event()) {}

Executor::BoundPlan& Executor::bound(const Plan& plan) {
  for (const auto& other : plans_) {
    if (other->key == plan.key()) return *other;
  }
  bind(plan, *plans_.emplace_back(std::make_unique<BoundPlan>()));
  return *plans_.back();
}

void Executor::list_exchanges(const ArenaPlan& arena) {
  for (const Bucket& bucket : arena.buckets) {
    exchanges_.push_back({.ranges = memory_.exchanged(bucket),
                          .bucket = static_cast<int>(exchanges_.size()),
                          .what = bucket.first_parameter});
  }
  for (const StatisticsSlice& slice : arena.statistics)
    exchanges_.push_back({.ranges = memory_.exchanged(slice), .what = slice.name});
  for (const RowsSlice& slice : arena.rows)
    exchanges_.push_back({.ranges = {memory_.exchanged(slice)}, .what = "rows of " + slice.name});
}

void Executor::bind(const Plan& plan, BoundPlan& into) {
  into.key = plan.key();
  if (exchanges_.empty()) list_exchanges(plan.arena);
  while (events_.size() < plan.events.size()) events_.push_back(device_.make_event());
  for (std::size_t slot = 0; slot < batch_slot_count; ++slot) into.slots[slot] = bind_slot(plan, slot);
  std::vector<std::string> labels;
  for (const Step& step : plan.steps) labels.push_back(label_of(plan, step));
  into.labels = step_tracker_->add_plan(std::move(labels));
  if (queue_ == nullptr && !into.slots.front().queued.empty()) {
    queue_ = std::make_unique<ExchangeQueue>(plan.arena.buckets.size() + plan.arena.rows.size(),
                                             [this](std::size_t first) { walk_queued(first); });
  }
}

/// Consecutive queued steps are handed over together.
Executor::BoundSlot Executor::bind_slot(const Plan& plan, std::size_t slot) {
  BoundSlot bound;
  bool is_handing_over = false;
  for (std::size_t at = 0; at < plan.steps.size(); ++at) {
    const Step& step = plan.steps[at];
    BoundStep next = bind_step(plan, step);
    next.label = static_cast<std::uint32_t>(at);
    if (const Launch* const launch = plan.launch_of(step)) {
      if (launch->kernel == nullptr) continue;
      std::vector<void*> args;
      for (const Operand& operand : launch->operands) args.push_back(memory_.address(operand, slot));
      bound.kernels.push_back(launch->kernel->bind(args, memory_.workspace() + launch->workspace));
      next.kernel = bound.kernels.back().get();
      if (anomalies_) anomalies_->add(*next.kernel, plan, step, slot);
    }
    if (is_handing_over && !step.queued) bound.queued.push_back({.action = Action::join});
    if (!is_handing_over && step.queued) {
      bound.steps.push_back({.action = Action::hand_over, .label = next.label, .index = bound.queued.size()});
    }
    (step.queued ? bound.queued : bound.steps).push_back(next);
    is_handing_over = step.queued;
  }
  if (communicator_.stream_ordered()) mark_end_of_exchange(bound.steps);
  return bound;
}

/// The last wait of the compute stream's; in plans that exchange it is for the exchange.
void Executor::mark_end_of_exchange(std::vector<BoundStep>& steps) const {
  const auto exchanges = [](const BoundStep& step) { return step.action == Action::all_reduce; };
  const auto waits = [this](const BoundStep& step) {
    return step.action == Action::wait && step.stream == streams_.front().get();
  };
  const auto last = std::find_if(steps.rbegin(), steps.rend(), waits);
  if (last != steps.rend() && std::ranges::any_of(steps, exchanges)) last->ends_exchange = true;
}

Executor::BoundStep Executor::bind_step(const Plan& plan, const Step& step) const {
  BoundStep bound{.stream = streams_[static_cast<std::size_t>(step.stream)].get(), .index = step.index};
  switch (step.kind) {
    case Step::Kind::begin_step:
    case Step::Kind::launch:
    case Step::Kind::add_rows:
    case Step::Kind::clip:
    case Step::Kind::update:
    case Step::Kind::average:
    case Step::Kind::end_step:
      bound.action = Action::launch;
      break;
    case Step::Kind::record:
    case Step::Kind::wait:
      bound.action = step.kind == Step::Kind::record ? Action::record : Action::wait;
      bound.event = events_[step.index].get();
      break;
    case Step::Kind::all_reduce:
    case Step::Kind::all_reduce_inline:
      bound.action = Action::all_reduce;
      bound.behind_compute = step.queued;
      bound.is_timed = step.kind == Step::Kind::all_reduce_inline;
      break;
    case Step::Kind::gather_rows:
    case Step::Kind::gather_rows_inline:
      bound.action = Action::gather_rows;
      bound.index += plan.arena.buckets.size() + plan.arena.statistics.size();
      bound.behind_compute = step.queued;
      bound.is_timed = step.kind == Step::Kind::gather_rows_inline;
      break;
    case Step::Kind::sum_statistics:
      bound.action = Action::all_reduce;
      bound.index += plan.arena.buckets.size();
      bound.is_timed = step.stream == StreamName::compute;
      break;
    case Step::Kind::join:
      bound.action = Action::join;
      bound.is_timed = true;
      break;
  }
  return bound;
}

StepTiming Executor::launch(const Plan& plan, std::size_t slot) {
  BoundPlan& on_memory = bound(plan);
  const auto start = Clock::now();
  timing_ = {};
  replay_or_walk(on_memory, on_memory.slots[slot]);
  timing_.launch_ns = nanoseconds_since(start);
  return timing_;
}

StepTiming Executor::run(const Plan& plan, std::size_t slot) {
  const auto start = Clock::now();
  StepTiming timing = launch(plan, slot);
  stream().record(*run_done_);
  communicator_.wait(*run_done_);
  timing.total_ns = nanoseconds_since(start);
  return timing;
}

void Executor::replay_or_walk(BoundPlan& plan, BoundSlot& slot) {
  if (uses_graphs_ && slot.has_run && slot.graph == nullptr) {
    slot.graph = device_.capture(stream(), [&] { walk(plan, slot); });
  }
  if (slot.graph != nullptr) {
    slot.graph->launch(stream());
  } else {
    walk(plan, slot);
  }
  slot.has_run = true;
}

void Executor::walk(const BoundPlan& plan, const BoundSlot& slot) {
  walking_ = &slot;
  for (const BoundStep& step : slot.steps) {
    step_tracker_->run(plan.labels, step.label);
    if (!step.is_timed) {
      waits_after_each_ ? run_to_its_end(step) : run(step);
      if (anomalies_ && step.action == Action::launch) require_finite_result(step);
      if (step_ends_ != nullptr) (*step_ends_)[step.label] = Clock::now();
      continue;
    }
    const auto start = Clock::now();
    waits_after_each_ ? run_to_its_end(step) : run(step);
    timing_.exposed_ns += nanoseconds_since(start);
  }
}

void Executor::run_to_its_end(const BoundStep& step) {
  const bool orders = step.action != Action::launch && step.action != Action::all_reduce &&
                      step.action != Action::gather_rows;
  if (orders) return run(step);
  try {
    run(step);
    step.stream->record(*run_done_);
    communicator_.wait(*run_done_);
  } catch (const DeviceError& error) {
    throw DeviceError(
        fmt::format("rank {}, {}: {}", communicator_.world().rank, step_tracker_->describe(), error.what()));
  }
}

void Executor::require_finite_result(const BoundStep& step) {
  const std::string found = anomalies_->examine(*step.kernel, *step.stream);
  if (found.empty()) return;
  throw NonFiniteError(
      fmt::format("rank {}, {}: the first result that is not finite, {}; lower --lr, or look "
                  "for bad samples",
                  communicator_.world().rank, step_tracker_->describe(), found));
}

/// On the queue's thread.
void Executor::walk_queued(std::size_t first) {
  const std::vector<BoundStep>& steps = walking_->queued;
  for (std::size_t at = first; steps[at].action != Action::join; ++at) run(steps[at]);
}

void Executor::run(const BoundStep& step) {
  switch (step.action) {
    case Action::launch:
      return step.kernel->launch(*step.stream);
    case Action::record:
      return step.stream->record(*step.event);
    case Action::wait:
      if (step.ends_exchange) return communicator_.wait_for_exchange(*step.stream, *step.event);
      return step.stream->wait(*step.event);
    case Action::all_reduce:
    case Action::gather_rows:
      return exchange(step);
    case Action::hand_over:
      return queue_->post(step.index);
    case Action::join:
      return queue_->wait_all();
  }
}

void Executor::exchange(const BoundStep& step) {
  const Exchange& exchange = exchanges_[step.index];
  const comm::ExchangeLabel label{
      .bucket = exchange.bucket, .what = exchange.what, .behind_compute = step.behind_compute};
  const comm::ExchangeTiming timing =
      step.action == Action::gather_rows
          ? communicator_.all_gather_filled(exchange.ranges.front(), label, *step.stream)
          : communicator_.all_reduce(exchange.ranges, label, *step.stream);
  timing_.add(timing);
}

}  // namespace lockstep::runtime
