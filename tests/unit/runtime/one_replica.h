#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "comm/make_communicator.h"
#include "kernels/base/philox.h"
#include "runtime/step/executor.h"
#include "runtime/step/parameter_io.h"
#include "tests/unit/runtime/small_plans.h"

namespace lockstep::runtime::testing {

/// A replica alone, trained on a fixed set of samples of `images` by plans of these keys.
class OneReplica {
 public:
  OneReplica(const model::Model& net, const std::vector<PlanKey>& keys, PlanConstraints constraints = {})
      : OneReplica(net, keys, constraints, {.kind = model::OptimizerKind::sgd, .learning_rate = 0.1}) {}
  OneReplica(const model::Model& net, const std::vector<PlanKey>& keys, PlanConstraints constraints,
             const model::OptimizerOptions& optimizer)
      : optimizer_(optimizer), samples_(static_cast<std::size_t>(most_samples * sample_elements)) {
    for (const PlanKey& key : keys) {
      plans_.push_back(make_plan(net, images, {.key = key, .optimizer = optimizer}, *device_, constraints));
      constraints.parameter_layouts = parameter_layouts(plans_[0].graph);
      constraints.arena = plans_[0].arena;
    }
    memory_ = std::make_unique<ReplicaMemory>(*device_, *communicator_, plans_);
    executor_ = std::make_unique<Executor>(*device_, *communicator_, *memory_);
    replica().initialise(3);
    Philox(1, 0).normals(0, samples_);
  }

  const Plan& plan(std::size_t at = 0) const { return plans_[at]; }
  ParameterIO replica() { return {*device_, plans_[0], *memory_}; }

  /// Runs the plan of `key` on the samples from `first` on, of a step of `step_samples`.
  kernels::ControlBlock run(const PlanKey& key, std::int64_t first, std::int64_t step_samples) {
    fill_slot(first, key.batch);
    memory_->host_input(slot) = {.state = {.loss_scale = 1.0F / static_cast<float>(step_samples),
                                           .valid_samples = static_cast<std::int32_t>(key.batch)},
                                 .control = {.next_targets = static_cast<float>(first)}};
    model::set_rate(optimizer_, memory_->host_input(slot).state);
    executor_->run(*std::ranges::find(plans_, key, &Plan::key), slot);
    return memory_->host_control(slot);
  }

 private:
  static constexpr std::size_t slot = 0;
  static constexpr std::int64_t most_samples = 16;
  static constexpr std::int64_t sample_elements = 3 * 8 * 8;

  void fill_slot(std::int64_t first, std::int64_t count) {
    std::memcpy(memory_->input(slot), samples_.data() + first * sample_elements,
                static_cast<std::size_t>(count * sample_elements) * sizeof(float));
    auto* const targets = static_cast<std::int64_t*>(memory_->target(slot));
    for (std::int64_t i = 0; i < count; ++i) targets[i] = (first + i) * 7 % 10;
  }

  const model::OptimizerOptions optimizer_;
  std::vector<float> samples_;
  std::unique_ptr<kernels::Device> device_ = kernels::make_cpu_device(1);
  std::unique_ptr<comm::Communicator> communicator_ = comm::make_communicator({}, {});
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
