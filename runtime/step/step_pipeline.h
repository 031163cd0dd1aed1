#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "data/loader.h"
#include "kernels/base/activity.h"
#include "kernels/device.h"
#include "kernels/step_state.h"
#include "runtime/step/executor.h"
#include "runtime/step/memory.h"

namespace lockstep::runtime {

/// A batch in a device slot.
struct DeviceBatch {
  data::BatchInfo info;
  std::size_t slot = 0;
};

/// Copies batches from the loader's ring into the device slots on a stream of its own, and measures the wait
/// for the loader. The host orders copies and steps, no event: a copy begins when the slot's last step is
/// known to have ended, while another runs, and has ended before its own step is launched.
class DevicePrefetcher {
 public:
  /// `activity` is told what `fetch` waits for.
  DevicePrefetcher(data::Loader& loader, kernels::Device& device, ReplicaMemory& memory, Seconds timeout,
                   Activity* activity);
  ~DevicePrefetcher();
  DevicePrefetcher(const DevicePrefetcher&) = delete;

  /// Waits until the loader has the next batch; false at the end.
  bool fetch();
  /// Of the fetched batch.
  const data::BatchInfo& info() const { return fetched_->info; }
  /// Starts to copy the fetched batch into `slot`, which no step in flight uses.
  DeviceBatch copy(std::size_t slot);
  /// Waits until the batch is there; the loader gets its place back.
  void finish_copy();

  /// Nanoseconds that `fetch` waited for the loader since the last call.
  std::int64_t take_waited_ns() { return std::exchange(waited_ns_, 0); }

 private:
  data::Loader& loader_;
  kernels::Device& device_;
  ReplicaMemory& memory_;
  std::unique_ptr<kernels::Stream> stream_;
  Seconds timeout_;
  Activity* activity_;
  std::optional<data::Batch> fetched_;
  std::optional<data::Batch> copying_;
  std::int64_t waited_ns_ = 0;
};

/// A completed training step.
struct FinishedStep {
  data::BatchInfo batch;     ///< the last micro-batch
  std::int64_t samples = 0;  ///< of all ranks
  kernels::ControlBlock control;
  StepTiming timing;
  Clock::time_point ended{};
};

/// The micro-batches of training steps in flight. An asynchronous device gets the next one before the
/// previous one has ended, so that it is never idle in between: the control block of a step reaches the next
/// step on the device at once, and the host one micro-batch later.
class StepPipeline {
 public:
  /// `targets` of all ranks in the first step, those that count.
  StepPipeline(kernels::Device& device, comm::Communicator& communicator, ReplicaMemory& memory,
               Executor& executor, double targets);

  /// Launches the micro-batch `batch` by `plan`. At most `most_ahead` are in flight before.
  void start(const Plan& plan, const DeviceBatch& batch, const kernels::StepInput& common);
  /// Waits for the oldest micro-batch; gives its step, if that ends with it. Throws the communicator's
  /// CommError.
  std::optional<FinishedStep> finish();

  std::size_t in_flight() const { return started_ - finished_; }
  /// How many micro-batches may be in flight while the host prepares another.
  std::size_t most_ahead() const { return most_ahead_; }

 private:
  struct MicroBatch {
    DeviceBatch batch;
    bool ends_step = true;
    StepTiming timing;
    Clock::time_point start;
    Clock::time_point launched;
  };
  MicroBatch& micro_batch(std::size_t number) { return micro_batches_[number % micro_batches_.size()]; }

  comm::Communicator& communicator_;
  ReplicaMemory& memory_;
  Executor& executor_;
  const std::size_t most_ahead_;
  const bool launches_wait_;  ///< for their step's exchange
  std::array<std::unique_ptr<kernels::Event>, batch_slot_count> slot_done_;
  std::array<MicroBatch, batch_slot_count> micro_batches_;  ///< a ring: by number
  std::size_t started_ = 0;
  std::size_t finished_ = 0;
  const double first_targets_;
  bool begins_ = true;  ///< none of its micro-batches has finished
  StepTiming timing_;   ///< of those that have
  Clock::time_point start_;
  Clock::time_point last_end_;
};

}  // namespace lockstep::runtime
