#include "runtime/run/evaluator.h"

#include <array>

#include "data/loader.h"
#include "data/sampler.h"
#include "runtime/step/step_pipeline.h"

namespace lockstep::runtime {

Evaluation evaluate(kernels::Device& device, comm::Communicator& communicator, ReplicaMemory& memory,
                    Executor& executor, const Plan& plan, std::size_t slot, const data::DatasetPtr& dataset,
                    const EvaluationOptions& options) {
  const comm::World& world = communicator.world();
  const data::UnpaddedSampler sampler{.samples = dataset->size(), .replicas = world.size, .rank = world.rank};
  data::Loader loader(dataset, [&](std::int64_t) { return sampler.indices(); },
                      {.batch_size = options.batch_size,
                       .workers = options.num_workers,
                       .prefetch_factor = options.prefetch_factor,
                       .epochs = 1,
                       .device = &device});
  DevicePrefetcher prefetcher(loader, device, memory, options.timeout);
  kernels::Stream& stream = executor.stream();
  const auto last_use = device.make_event();
  double loss = 0;
  double correct = 0;
  double targets = 0;
  while (prefetcher.fetch()) {
    const DeviceBatch batch = prefetcher.copy(slot, *last_use, stream);
    const auto rows = static_cast<std::int32_t>(batch.info.samples);
    memory.host_input(slot) = {.state = {.valid_samples = rows}, .control = {}};
    executor.run(plan, slot);
    const kernels::ControlBlock& control = memory.host_control(slot);
    loss += control.loss;
    correct += control.correct;
    targets += control.targets;
  }
  std::array sums{loss, correct, targets};
  communicator.all_reduce_sum(sums);
  const double count = sums[2] > 0 ? sums[2] : 1;
  return {.loss = sums[0] / count,
          .accuracy = sums[1] / count,
          .samples = dataset->size(),
          .classes = dataset->spec().num_classes > 0};
}

}  // namespace lockstep::runtime
