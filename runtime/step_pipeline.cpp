#include "runtime/step_pipeline.h"

#include <algorithm>
#include <cstring>

#include "kernels/begin_step.h"
#include "kernels/dispatch.h"

namespace lockstep::runtime {

StepPipeline::StepPipeline(kernels::Device& device, comm::Communicator& communicator, ReplicaMemory& memory,
                           Executor& executor, double targets)
    : device_(device),
      communicator_(communicator),
      memory_(memory),
      executor_(executor),
      most_ahead_(device.works_by_itself() ? 1 : 0),
      input_(device.allocate(sizeof(kernels::StepInput))),
      targets_(targets) {
  const std::array<void*, 3> args{input_->data(), memory.step_state(), memory.training_control()};
  const auto bytes = [](kernels::TensorType type) { return kernels::TensorDesc{type.dtype, type.shape, {}}; };
  const kernels::KernelIo io{.inputs = {bytes({DType::u8, {sizeof(kernels::StepInput)}})},
                             .outputs = {bytes(kernels::step_state_type()), bytes(kernels::control_type())}};
  begin_ = kernels::kernel_for(device, kernels::BeginStep{}, io)->bind(args, nullptr);
  for (Step& step : steps_) {
    step.input = device.allocate_host(sizeof(kernels::StepInput));
    step.result = device.allocate_host(sizeof(kernels::ControlBlock));
    step.done = device.make_event();
  }
}

void StepPipeline::start(std::size_t plan, const DeviceBatch& batch, const kernels::StepInput& common) {
  kernels::StepInput input = common;
  input.state.valid_samples = static_cast<std::int32_t>(batch.samples);
  input.state.loss_scale = started_ == 0 ? static_cast<float>(1.0 / targets_) : 0;
  Step& step = steps_[batch.slot];
  if (under_way() == 0) oldest_slot_ = batch.slot;
  step.batch = batch;
  step.start = Clock::now();
  kernels::Stream& stream = executor_.stream();
  std::memcpy(step.input->data(), &input, sizeof(input));
  device_.copy_to_device(input_->data(), step.input->data(), sizeof(input), stream);
  begin_->launch(stream);
  step.timing = executor_.launch(plan, batch.slot);
  device_.copy_to_host(step.result->data(), memory_.training_control(), sizeof(kernels::ControlBlock),
                       stream);
  stream.record(*step.done);
  ++started_;
}

FinishedStep StepPipeline::finish() {
  Step& step = steps_[oldest_slot_];
  communicator_.wait(*step.done);
  ++finished_;
  oldest_slot_ = (oldest_slot_ + 1) % steps_.size();
  FinishedStep finished{.batch = step.batch,
                        .samples = static_cast<std::int64_t>(targets_),
                        .control = {},
                        .timing = step.timing};
  std::memcpy(&finished.control, step.result->data(), sizeof(finished.control));
  targets_ = finished.control.next_targets;
  const auto end = Clock::now();
  finished.timing.total_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(end - std::max(step.start, last_end_)).count();
  last_end_ = end;
  return finished;
}

}  // namespace lockstep::runtime
