// From a plan to its steps in a replica's memory.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "runtime/plan/print.h"
#include "runtime/step/executor.h"

namespace lockstep::runtime {
namespace {

/// Places in `Executor::exchanges_`: of buckets, of statistics, of slices of rows, of buckets' parameters.
class ExchangeNumbers {
 public:
  explicit ExchangeNumbers(const ArenaPlan& arena)
      : buckets_(arena.buckets.size()), statistics_(arena.statistics.size()), rows_(arena.rows.size()) {}

  std::size_t of_bucket(std::size_t index) const { return index; }
  std::size_t of_statistics(std::size_t index) const { return buckets_ + index; }
  std::size_t of_rows(std::size_t index) const { return buckets_ + statistics_ + index; }
  std::size_t of_parameters(std::size_t bucket) const { return buckets_ + statistics_ + rows_ + bucket; }
  std::size_t count() const { return of_parameters(buckets_); }

 private:
  std::size_t buckets_;
  std::size_t statistics_;
  std::size_t rows_;
};

}  // namespace

Executor::BoundPlan& Executor::bound(const Plan& plan) {
  for (const auto& other : plans_) {
    if (other->key == plan.key()) return *other;
  }
  settle();  // what follows changes what the queue's thread reads
  bind(plan, *plans_.emplace_back(std::make_unique<BoundPlan>()));
  return *plans_.back();
}

void Executor::list_exchanges(const ArenaPlan& arena) {
  const ExchangeNumbers numbers(arena);
  exchanges_.resize(numbers.count());
  for (std::size_t i = 0; i < arena.buckets.size(); ++i) {
    const Bucket& bucket = arena.buckets[i];
    exchanges_[numbers.of_bucket(i)] = {.ranges = memory_.exchanged(bucket),
                                        .bucket = static_cast<int>(i),
                                        .what = bucket.first_parameter,
                                        .scatters = bucket.shards_update};
    if (!bucket.shards_update) continue;
    exchanges_[numbers.of_parameters(i)] = {.ranges = memory_.gathered(bucket),
                                            .what = "parameters from " + bucket.first_parameter + " on"};
  }
  for (std::size_t i = 0; i < arena.statistics.size(); ++i) {
    const StatisticsSlice& slice = arena.statistics[i];
    exchanges_[numbers.of_statistics(i)] = {.ranges = memory_.exchanged(slice), .what = slice.name};
  }
  for (std::size_t i = 0; i < arena.rows.size(); ++i) {
    const RowsSlice& slice = arena.rows[i];
    exchanges_[numbers.of_rows(i)] = {.ranges = {memory_.exchanged(slice)}, .what = "rows of " + slice.name};
  }
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
    order_ = std::make_unique<ExchangeOrder>(*queue_, exchanges_.size(), plan.steps);
    if (std::ranges::any_of(plan.steps, &Step::deferred)) turns_.emplace(*queue_);
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
                  .may_be_held = step.held.has_value(),
                  .deferred = step.deferred,
                  .stream = streams_[static_cast<std::size_t>(step.stream)].get(),
                  .index = step.index};
  const ExchangeNumbers numbers(plan.arena);
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
      bound.index = numbers.of_bucket(step.index);
      bound.behind_compute = step.queued;
      bound.is_timed = step.kind == Step::Kind::all_reduce_inline;
      break;
    case Step::Kind::gather_parameters:
      bound.action = Action::gather_parameters;
      bound.index = numbers.of_parameters(step.index);
      bound.is_timed = true;
      break;
    case Step::Kind::gather_rows:
    case Step::Kind::gather_rows_inline:
      bound.action = Action::gather_rows;
      bound.index = numbers.of_rows(step.index);
      bound.behind_compute = step.queued;
      bound.is_timed = step.kind == Step::Kind::gather_rows_inline;
      break;
    case Step::Kind::sum_statistics:
      bound.action = Action::all_reduce;
      bound.index = numbers.of_statistics(step.index);
      bound.is_timed = step.stream == StreamName::compute;
      break;
    case Step::Kind::await_compute:
      bound.action = Action::await_compute;
      break;
    case Step::Kind::join:
      bound.action = Action::join;
      bound.is_timed = true;
      break;
    case Step::Kind::hand_over_held:
      bound.action = Action::hand_over_held;
      break;
    case Step::Kind::await_bucket:
      bound.action = Action::await;
      bound.index = numbers.of_bucket(step.index);
      bound.is_timed = true;
      break;
    case Step::Kind::await_rows:
      bound.action = Action::await;
      bound.index = numbers.of_rows(step.index);
      bound.is_timed = true;
      break;
    case Step::Kind::keep_state:
      bound.action = Action::keep_state;
      break;
  }
  return bound;
}

}  // namespace lockstep::runtime
