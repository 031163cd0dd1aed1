#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "comm/make_communicator.h"
#include "kernels/base/philox.h"
#include "runtime/step/executor.h"
#include "runtime/weights/parameter_io.h"
#include "tests/unit/runtime/small_plans.h"

namespace lockstep::runtime::testing {

/// A replica alone, trained on a fixed set of samples of `images` by plans of these keys, on a CPU unless
/// told.
class OneReplica {
 public:
  OneReplica(const model::Model& net, const std::vector<PlanKey>& keys, PlanConstraints constraints = {})
      : OneReplica(net, keys, constraints, {.kind = model::OptimizerKind::sgd, .learning_rate = 0.1}) {}
  OneReplica(const model::Model& net, const std::vector<PlanKey>& keys, PlanConstraints constraints,
             const model::OptimizerOptions& optimizer, double average_decay = 0,
             std::unique_ptr<kernels::Device> device = kernels::make_cpu_device(1))
      : optimizer_(optimizer),
        samples_(static_cast<std::size_t>(most_samples * sample_elements)),
        device_(std::move(device)) {
    for (const PlanKey& key : keys) {
      plans_.push_back(make_plan(net, images,
                                 {.key = key,
                                  .schedule = {.exchange = false},
                                  .average_decay = average_decay,
                                  .optimizer = optimizer},
                                 *device_, constraints));
      constraints.parameter_layouts = parameter_layouts(plans_[0].graph);
      constraints.arena = plans_[0].arena;
    }
    memory_ = std::make_unique<ReplicaMemory>(*device_, *communicator_, plans_);
    executor_ = std::make_unique<Executor>(*device_, *communicator_, *memory_);
    replica().initialise(3);
    Philox(1, 0).normals(0, samples_);
  }

  const Plan& plan(std::size_t at = 0) const { return plans_[at]; }
  const ReplicaMemory& memory() const { return *memory_; }
  std::vector<std::byte> on_host(const void* memory, std::size_t bytes) {
    std::vector<std::byte> copy(bytes);
    device_->copy_to_host(copy.data(), memory, bytes, executor_->stream());
    executor_->stream().synchronize();
    return copy;
  }
  ParameterIO replica() { return {*device_, plans_[0], *memory_}; }

  /// Runs the plan of `key` on the samples from `first` on, of a step of `step_samples`.
  kernels::ControlBlock run(const PlanKey& key, std::int64_t first, std::int64_t step_samples) {
    fill_slot(first, key.batch);
    memory_->host_input(slot) = {.state = {.learning_rate = optimizer_.learning_rate,
                                           .loss_scale = 1.0F / static_cast<float>(step_samples),
                                           .valid_samples = static_cast<std::int32_t>(key.batch)},
                                 .control = {.next_targets = static_cast<float>(first)}};
    executor_->run(*std::ranges::find(plans_, key, &Plan::key), slot);
    return memory_->host_control(slot);
  }

 private:
  static constexpr std::size_t slot = 0;
  static constexpr std::int64_t most_samples = 16;
  static constexpr std::int64_t sample_elements = 3 * 8 * 8;

  void fill_slot(std::int64_t first, std::int64_t count) {
    std::vector<std::int64_t> targets;
    for (std::int64_t i = 0; i < count; ++i) targets.push_back((first + i) * 7 % 10);
    kernels::Stream& stream = executor_->stream();
    device_->copy_to_device(memory_->input(slot), samples_.data() + first * sample_elements,
                            static_cast<std::size_t>(count * sample_elements) * sizeof(float), stream);
    device_->copy_to_device(memory_->target(slot), targets.data(), targets.size() * sizeof(targets[0]),
                            stream);
    stream.synchronize();
  }

  const model::OptimizerOptions optimizer_;
  std::vector<float> samples_;
  std::unique_ptr<kernels::Device> device_;
  std::unique_ptr<comm::Communicator> communicator_ = comm::make_communicator({}, {}, *device_);
  std::vector<Plan> plans_;
  std::unique_ptr<ReplicaMemory> memory_;
  std::unique_ptr<Executor> executor_;
};

/// |a - b| / |b| over all values.
inline double relative_distance(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b) {
  double difference = 0;
  double norm = 0;
  for (std::size_t t = 0; t < a.size(); ++t) {
    for (std::size_t i = 0; i < a[t].values.size(); ++i) {
      difference += std::pow(static_cast<double>(a[t].values[i]) - b[t].values[i], 2);
      norm += std::pow(static_cast<double>(b[t].values[i]), 2);
    }
  }
  return std::sqrt(difference / norm);
}

}  // namespace lockstep::runtime::testing
