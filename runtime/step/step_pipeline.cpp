#include "runtime/step/step_pipeline.h"

#include <algorithm>
#include <exception>

namespace lockstep::runtime {

DevicePrefetcher::DevicePrefetcher(data::Loader& loader, kernels::Device& device, ReplicaMemory& memory,
                                   Seconds timeout, Activity* activity)
    : loader_(loader),
      device_(device),
      memory_(memory),
      stream_(device.make_stream()),
      timeout_(timeout),
      activity_(activity) {}

/// A run that stops may still copy a batch that no step uses.
DevicePrefetcher::~DevicePrefetcher() {
  try {
    finish_copy();
  } catch (const std::exception&) {
    // The device has failed, and the run ends with its first error.
  }
}

bool DevicePrefetcher::fetch() {
  finish_copy();
  const auto start = Clock::now();
  {
    const Activity::Work waiting(activity_, [this] { return "waiting for " + loader_.describe_next(); });
    // A worker that hangs cannot be joined: the process has ended before this deadline (StallWatch).
    fetched_ = loader_.next(Deadline::in(2 * timeout_));
  }
  waited_ns_ += std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
  return fetched_.has_value();
}

DeviceBatch DevicePrefetcher::copy(std::size_t slot) {
  const data::Batch& batch = *fetched_;
  device_.copy_to_device(memory_.input(slot), batch.input.data(), batch.input.size(), *stream_);
  device_.copy_to_device(memory_.target(slot), batch.target.data(), batch.target.size(), *stream_);
  if (!batch.states.empty())
    device_.copy_to_device(memory_.states(slot), batch.states.data(), batch.states.size(), *stream_);
  copying_ = batch;
  return {.info = batch.info, .slot = slot};
}

void DevicePrefetcher::finish_copy() {
  if (!copying_) return;
  stream_->synchronize();
  loader_.release(*copying_);
  copying_.reset();
}

StepPipeline::StepPipeline(kernels::Device& device, comm::Communicator& communicator, ReplicaMemory& memory,
                           Executor& executor, double targets)
    : communicator_(communicator),
      memory_(memory),
      executor_(executor),
      most_ahead_(device.is_async() ? 1 : 0),
      launches_wait_(communicator.world().size > 1 && !communicator.stream_ordered()),
      first_targets_(targets) {
  for (auto& event : slot_done_) event = device.make_event();
}

void StepPipeline::start(const Plan& plan, const DeviceBatch& batch, const kernels::StepInput& common) {
  kernels::StepInput& input = memory_.host_input(batch.slot);
  input = common;
  input.state.epoch = batch.info.epoch;
  input.state.valid_samples = static_cast<std::int32_t>(batch.info.counted());
  input.control.exchange_share = static_cast<float>(executor_.exchange_share());
  input.state.loss_scale = started_ == 0 ? kernels::loss_scale_for(first_targets_) : 0;
  MicroBatch& next = micro_batch(started_++);
  next.batch = batch;
  next.ends_step = ends_step(plan.key().role);
  next.start = Clock::now();
  next.timing = executor_.launch(plan, batch.slot);
  next.launched = Clock::now();
  executor_.stream().record(*slot_done_[batch.slot]);
}

std::optional<FinishedStep> StepPipeline::finish() {
  const MicroBatch& oldest = micro_batch(finished_++);
  communicator_.wait(*slot_done_[oldest.batch.slot]);
  if (begins_) start_ = std::max(oldest.start, last_end_);
  begins_ = oldest.ends_step;
  timing_.add_parts(oldest.timing);
  timing_.add(communicator_.take_timing());
  if (!oldest.ends_step) return std::nullopt;
  FinishedStep finished{.batch = oldest.batch.info,
                        .control = memory_.host_control(oldest.batch.slot),
                        .timing = std::exchange(timing_, {})};
  executor_.follow(finished.control.exchange_share / static_cast<float>(communicator_.world().size));
  finished.samples = static_cast<std::int64_t>(finished.control.samples);
  // The host comes here behind the next launch. If that has waited, for its exchange and so for its compute,
  // this step is long over: it ended with its own exchange, but for updates.
  last_end_ = launches_wait_ && in_flight() > 0 ? oldest.launched : Clock::now();
  finished.ended = last_end_;
  finished.timing.total_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(last_end_ - start_).count();
  return finished;
}

}  // namespace lockstep::runtime
