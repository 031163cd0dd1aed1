// From a plan to its steps in a replica's memory.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "runtime/plan/print.h"
#include "runtime/step/executor.h"

namespace lockstep::runtime {

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
    BoundStep next = bind_step(plan, step);
    next.label = static_cast<std::uint32_t>(at);
    if (const Launch* const launch = plan.launch_of(step)) {
      if (launch->kernel == nullptr) continue;
      std::vector<void*> args;
      for (const Operand& operand : launch->operands) args.push_back(memory_.address(operand, slot));
      bound.kernels.push_back(launch->kernel->bind(args, memory_.address(launch->workspace, slot)));
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
  return bound;
}

Executor::BoundStep Executor::bind_step(const Plan& plan, const Step& step) const {
  BoundStep bound{.for_exchange = step.for_exchange,
                  .may_be_held = step.may_be_held,
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
      bound.index += first_rows;
      bound.behind_compute = step.queued;
      bound.is_timed = step.kind == Step::Kind::gather_rows_inline;
      break;
    case Step::Kind::sum_statistics:
      bound.action = Action::all_reduce;
      bound.index += plan.arena.buckets.size();
      bound.is_timed = step.stream == StreamName::compute;
      break;
    case Step::Kind::await_compute:
      bound.action = Action::await_compute;
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
      break;
  }
  return bound;
}

}  // namespace lockstep::runtime
