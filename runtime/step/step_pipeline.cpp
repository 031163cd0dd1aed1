#include "runtime/step/step_pipeline.h"

#include <algorithm>

namespace lockstep::runtime {

StepPipeline::StepPipeline(kernels::Device& device, comm::Communicator& communicator, ReplicaMemory& memory,
                           Executor& executor, double targets)
    : communicator_(communicator),
      memory_(memory),
      executor_(executor),
      most_ahead_(device.is_async() ? 1 : 0),
      targets_(targets) {
  for (auto& event : slot_done_) event = device.make_event();
}

void StepPipeline::start(const Plan& plan, const DeviceBatch& batch, const kernels::StepInput& common) {
  kernels::StepInput& input = memory_.host_input(batch.slot);
  input = common;
  input.state.valid_samples = static_cast<std::int32_t>(batch.info.samples);
  input.state.loss_scale = started_ == 0 ? static_cast<float>(1.0 / targets_) : 0;
  Step& next = step(started_++);
  next.batch = batch;
  next.start = Clock::now();
  next.timing = executor_.launch(plan, batch.slot);
  executor_.stream().record(*slot_done_[batch.slot]);
}

FinishedStep StepPipeline::finish() {
  const Step& oldest = step(finished_++);
  communicator_.wait(*slot_done_[oldest.batch.slot]);
  FinishedStep finished{.batch = oldest.batch.info,
                        .samples = static_cast<std::int64_t>(targets_),
                        .control = memory_.host_control(oldest.batch.slot),
                        .timing = oldest.timing};
  targets_ = finished.control.next_targets;
  const auto end = Clock::now();
  finished.timing.total_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(end - std::max(oldest.start, last_end_)).count();
  last_end_ = end;
  return finished;
}

}  // namespace lockstep::runtime
