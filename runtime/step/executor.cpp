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

Executor::Executor(kernels::Device& device, comm::Communicator& communicator, const ReplicaMemory& memory)
    : device_(device),
      communicator_(communicator),
      memory_(memory),
      streams_{device.make_stream(), device.make_stream(kernels::StreamPriority::high)},
      run_done_(device.make_event()) {}

Executor::BoundPlan& Executor::bound(const Plan& plan) {
  for (const auto& other : plans_) {
    if (other->key == plan.key()) return *other;
  }
  settle();  // what follows changes what the queue's thread reads
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
  if (queue_ == nullptr && !queued_.empty()) {
    queue_ = std::make_unique<ExchangeQueue>(plan.arena.buckets.size() + plan.arena.rows.size(),
                                             [this](std::size_t part) { walk_queued(part); });
    const auto holdable = std::ranges::count(plan.steps, true, &Step::may_be_held);
    order_ = std::make_unique<ExchangeOrder>(*queue_, exchanges_.size(), static_cast<std::size_t>(holdable));
  }
}

/// Consecutive queued steps are handed over together, but each exchange by itself.
void Executor::bind_queued(const BoundStep& next, BoundSlot& slot, bool continues) {
  const auto is_exchange = [](const BoundStep& step) {
    return step.action == Action::all_reduce || step.action == Action::gather_rows;
  };
  if (!continues || (is_exchange(next) && std::ranges::any_of(queued_.back(), is_exchange))) {
    slot.steps.push_back({.action = Action::hand_over, .label = next.label, .index = queued_.size()});
    queued_.emplace_back();
  }
  queued_.back().push_back(next);
  if (!is_exchange(next)) return;
  slot.steps.back().exchange = next.index;
  slot.steps.back().may_be_held = next.may_be_held;
}

Executor::BoundSlot Executor::bind_slot(const Plan& plan, std::size_t slot) {
  BoundSlot bound;
  bool is_handing_over = false;
  for (std::size_t at = 0; at < plan.steps.size(); ++at) {
    const Step& step = plan.steps[at];
    BoundStep next = bind_step(plan, step, slot);
    next.label = static_cast<std::uint32_t>(at);
    if (const Launch* const launch = plan.launch_of(step)) {
      if (launch->kernel == nullptr) continue;
      std::vector<void*> args;
      for (const Operand& operand : launch->operands) args.push_back(memory_.address(operand, slot));
      bound.kernels.push_back(launch->kernel->bind(args, memory_.workspace() + launch->workspace));
      next.kernel = bound.kernels.back().get();
      if (anomalies_) anomalies_->add(*next.kernel, plan, step, slot);
    }
    if (step.queued) {
      bind_queued(next, bound, is_handing_over);
    } else {
      bound.steps.push_back(next);
    }
    is_handing_over = step.queued;
    bound.has_deferred = bound.has_deferred || step.deferred;
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

Executor::BoundStep Executor::bind_step(const Plan& plan, const Step& step, std::size_t slot) const {
  BoundStep bound{.may_be_held = step.may_be_held,
                  .deferred = step.deferred,
                  .stream = streams_[static_cast<std::size_t>(step.stream)].get(),
                  .index = step.index};
  const std::size_t first_rows = plan.arena.buckets.size() + plan.arena.statistics.size();
  switch (step.kind) {
    case Step::Kind::begin_step:
    case Step::Kind::launch:
    case Step::Kind::add_rows:
    case Step::Kind::clip:
    case Step::Kind::update:
    case Step::Kind::average:
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
      bound.index += first_rows;
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
    case Step::Kind::post_held:
      bound.action = Action::hand_over_held;
      break;
    case Step::Kind::await_bucket:
    case Step::Kind::await_rows:
      bound.action = Action::await;
      bound.index += step.kind == Step::Kind::await_rows ? first_rows : 0;
      bound.is_timed = true;
      break;
    case Step::Kind::keep_state:
      bound.action = Action::keep_state;
      bound.from = memory_.address({.region = Region::step_state}, slot);
      bound.to = memory_.address({.region = Region::kept_state}, slot);
      bound.index = sizeof(kernels::StepState);
      break;
    case Step::Kind::copy_in:
      bound.action = Action::copy_to_device;
      bound.from = &memory_.host_input(slot);
      bound.to = memory_.address(plan.launches.input, slot);
      bound.index = sizeof(kernels::StepInput);
      break;
    case Step::Kind::copy_back:
      bound.action = Action::copy_to_host;
      bound.from = memory_.address(plan.launches.control, slot);
      bound.to = &memory_.host_control(slot);
      bound.index = sizeof(kernels::ControlBlock);
      break;
  }
  return bound;
}

StepTiming Executor::launch(const Plan& plan, std::size_t slot) {
  BoundPlan& on_memory = bound(plan);
  const auto start = Clock::now();
  timing_ = {};
  replay_or_walk(on_memory, on_memory.slots[slot]);
  timing_.transfer_ns += queued_transfer_ns_.exchange(0);
  timing_.skew_ns += queued_skew_ns_.exchange(0);
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
  if (!slot.has_deferred) settle();
  const bool completes = std::exchange(has_left_updates_, false);
  if (slot.has_deferred) completing_ = &slot;
  for (const BoundStep& step : slot.steps) {
    if (step.deferred && !completes) continue;
    step_tracker_->run(plan.labels, step.label);
    if (!step.is_timed) {
      run(step);
      if (anomalies_ && step.action == Action::launch) require_finite_result(step);
      if (step_ends_ != nullptr) (*step_ends_)[step.label] = Clock::now();
      continue;
    }
    const auto start = Clock::now();
    run(step);
    timing_.exposed_ns += nanoseconds_since(start);
  }
}

void Executor::settle() {
  if (!std::exchange(has_left_updates_, false)) return;
  for (const BoundStep& step : completing_->steps) {
    if (step.deferred) run(step);
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
void Executor::walk_queued(std::size_t part) {
  for (const BoundStep& step : queued_[part]) {
    if (step.action != Action::all_reduce && step.action != Action::gather_rows) {
      run(step);
      continue;
    }
    const comm::ExchangeTiming timing = exchange(step);
    queued_transfer_ns_ += timing.transfer_ns;
    queued_skew_ns_ += timing.skew_ns;
  }
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
      return timing_.add(exchange(step));
    case Action::hand_over:
      return order_->hand_over(step.exchange, step.index, step.may_be_held);
    case Action::join:
      return queue_->wait_all();
    case Action::hand_over_held:
      return order_->hand_over_held();
    case Action::await:
      return order_->wait(step.index);
    case Action::keep_state:
      has_left_updates_ = true;
      return device_.copy_to_device(step.to, step.from, step.index, *step.stream);
    case Action::copy_to_device:
      return device_.copy_to_device(step.to, step.from, step.index, *step.stream);
    case Action::copy_to_host:
      return device_.copy_to_host(step.to, step.from, step.index, *step.stream);
  }
}

comm::ExchangeTiming Executor::exchange(const BoundStep& step) {
  const Exchange& exchange = exchanges_[step.index];
  const comm::ExchangeLabel label{
      .bucket = exchange.bucket, .what = exchange.what, .behind_compute = step.behind_compute};
  return step.action == Action::gather_rows
             ? communicator_.all_gather_filled(exchange.ranges.front(), label, *step.stream)
             : communicator_.all_reduce(exchange.ranges, label, *step.stream);
}

}  // namespace lockstep::runtime
