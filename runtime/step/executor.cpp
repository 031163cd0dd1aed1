#include "runtime/step/executor.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "comm/polling.h"
#include "kernels/base/error.h"
#include "kernels/base/log.h"
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
      streams_{device.make_stream(), device.make_stream(kernels::StreamPriority::high), device.make_stream()},
      run_done_(device.make_event()) {}

StepTiming Executor::launch(const Plan& plan, std::size_t slot) {
  BoundPlan& on_memory = bound(plan);
  const auto start = Clock::now();
  timing_ = {};
  replay_or_walk(on_memory, on_memory.slots[slot]);
  timing_.transfer_ns += queued_transfer_ns_.exchange(0);
  timing_.skew_ns += queued_skew_ns_.exchange(0);
  timing_.launch_ns = nanoseconds_since(start);
  if (turns_ && plan.key().trains()) turns_->end_walk(timing_.exposed_ns, timing_.launch_ns);
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
  if (graphs_ && slot.has_run && slot.graph == nullptr && !plan.walks) capture(plan, slot);
  if (slot.graph != nullptr) {
    slot.graph->launch(stream());
  } else {
    walk(plan, slot);
  }
  slot.has_run = true;
}

/// Ranks train in step, and a collective in a graph needs its peers in graphs: all replay, or all walk. In an
/// evaluation they do not exchange, and one may have fewer batches.
void Executor::capture(BoundPlan& plan, BoundSlot& slot) {
  std::string problem;
  try {
    slot.graph = device_.capture(stream(), [&] { walk(plan, slot); });
  } catch (const DeviceError& error) {
    if (graphs_ == WithoutGraph::fails || communicator_.failed()) throw;
    problem = error.what();
  }
  if (graphs_ == WithoutGraph::fails) return;
  const bool trains = plan.key.trains();
  const bool together = trains && communicator_.stream_ordered();
  const std::vector<std::string> problems =
      together ? communicator_.all_gather(problem) : std::vector{problem};
  const auto first = std::ranges::find_if(problems, [](const std::string& text) { return !text.empty(); });
  if (first == problems.end()) return;
  plan.walks = true;
  walks_without_graph_ = walks_without_graph_ || trains;
  for (BoundSlot& each : plan.slots) each.graph.reset();
  if (!together || first - problems.begin() == communicator_.world().rank)
    log::warn("{} cannot be replayed as a CUDA graph, and is walked: {}",
              trains ? "a step" : "an evaluation's batch", *first);
}

void Executor::walk(const BoundPlan& plan, const BoundSlot& slot) {
  if (!slot.has_deferred) settle();
  const bool completes = std::exchange(has_left_updates_, false);
  if (slot.has_deferred) completing_ = &slot;
  for (const BoundStep& step : slot.steps) {
    if (step.deferred && !completes) continue;
    step_tracker_->run(plan.labels, step.label);
    if (step.is_timed) {
      const auto start = Clock::now();
      waits_after_each_ ? run_to_its_end(step) : run(step);
      timing_.exposed_ns += nanoseconds_since(start);
    } else {
      waits_after_each_ ? run_to_its_end(step) : run(step);
      if (anomalies_ && step.action == Action::launch) require_finite_result(step);
      if (turns_ && step.action == Action::launch) turns_->between_kernels();
    }
    if (step_ends_ != nullptr) (*step_ends_)[step.label] = Clock::now();
  }
}

void Executor::settle() {
  if (!std::exchange(has_left_updates_, false)) return;
  for (const BoundStep& step : completing_->steps) {
    if (step.deferred) run(step);
  }
}

/// Not by Stream::synchronize, where CUDA spins on a core that the exchange may need.
void Executor::await_compute(kernels::Stream& stream) {
  stream.record(*run_done_);
  for (comm::Backoff backoff; !run_done_->reached(); backoff.pause()) {
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
      if (step.for_exchange) return communicator_.wait_for_exchange(*step.stream, *step.event);
      return step.stream->wait(*step.event);
    case Action::all_reduce:
    case Action::gather_rows:
    case Action::gather_parameters:
      return timing_.add(exchange(step));
    case Action::hand_over:
      return order_->hand_over(step.exchange, step.index, step.may_be_held);
    case Action::await_compute:
      return await_compute(*step.stream);
    case Action::join:
      return queue_->wait_all();
    case Action::hand_over_held:
      return order_->hand_over_held();
    case Action::await:
      return order_->wait(step.index);
    case Action::keep_state:
      has_left_updates_ = true;
      return device_.copy_to_device(memory_.kept_state(), memory_.step_state(), sizeof(kernels::StepState),
                                    *step.stream);
  }
}

comm::ExchangeTiming Executor::exchange(const BoundStep& step) {
  const Exchange& exchange = exchanges_[step.index];
  const comm::ExchangeLabel label{
      .bucket = exchange.bucket, .what = exchange.what, .behind_compute = step.behind_compute};
  if (step.action == Action::gather_rows)
    return communicator_.all_gather_filled(exchange.ranges.front(), label, *step.stream);
  if (step.action == Action::all_reduce && !exchange.scatters)
    return communicator_.all_reduce(exchange.ranges, label, *step.stream);
  comm::ExchangeTiming timing;
  for (const comm::ArenaRange& range : exchange.ranges) {
    const bool is_first = &range == &exchange.ranges.front();
    timing.add(step.action == Action::gather_parameters ? communicator_.all_gather(range, label, *step.stream)
               : is_first ? communicator_.reduce_scatter(range, label, *step.stream)
                          : communicator_.all_reduce(range, label, *step.stream));
  }
  return timing;
}

}  // namespace lockstep::runtime
