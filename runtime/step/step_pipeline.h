#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "data/batch.h"
#include "kernels/step_state.h"
#include "runtime/step/device_prefetcher.h"
#include "runtime/step/executor.h"

namespace lockstep::runtime {

/// A training step that is over.
struct FinishedStep {
  data::BatchInfo batch;
  std::int64_t samples = 0;  ///< of all ranks
  kernels::ControlBlock control;
  StepTiming timing;
};

/// Training steps under way. A device that works by itself gets a step before the last one's end is known, so
/// that it is never idle between two: what the ranks learn in a step reaches the next on the device, and the
/// host a step later.
class StepPipeline {
 public:
  /// `targets` of all ranks in the first step.
  StepPipeline(kernels::Device& device, comm::Communicator& communicator, ReplicaMemory& memory,
               Executor& executor, double targets);

  /// Launches a step of `plan` on `batch`. At most `most_ahead` are under way before.
  void start(const Plan& plan, const DeviceBatch& batch, const kernels::StepInput& common);
  /// The oldest, to its end. CommError as the communicator's.
  FinishedStep finish();

  std::size_t under_way() const { return started_ - finished_; }
  /// How many steps may be under way while the host prepares another.
  std::size_t most_ahead() const { return most_ahead_; }
  /// Of the last step on that batch slot.
  kernels::Event& end_of_step_on(std::size_t slot) { return *slot_done_[slot]; }

 private:
  struct Step {
    DeviceBatch batch;
    StepTiming timing;
    Clock::time_point start;
  };
  Step& step(std::size_t number) { return steps_[number % steps_.size()]; }

  comm::Communicator& communicator_;
  ReplicaMemory& memory_;
  Executor& executor_;
  const std::size_t most_ahead_;
  std::array<std::unique_ptr<kernels::Event>, batch_slot_count> slot_done_;
  std::array<Step, 2> steps_;  ///< a ring: by number
  std::size_t started_ = 0;
  std::size_t finished_ = 0;
  double targets_;  ///< of all ranks in the oldest step
  Clock::time_point last_end_;
};

}  // namespace lockstep::runtime
