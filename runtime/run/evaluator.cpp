#include "runtime/run/evaluator.h"

#include <algorithm>
#include <array>

#include "data/loader.h"
#include "data/sampler.h"
#include "kernels/base/division.h"
#include "runtime/step/step_pipeline.h"

namespace lockstep::runtime {
namespace {

/// Agrees between two batches whether a rank was asked to stop, several times a second: after a number of
/// batches that follows the ranks' mean time, and so is the same on all.
class StopVote {
 public:
  StopVote(comm::Communicator& communicator, const StopRequest& stop_request)
      : communicator_(communicator), stop_request_(stop_request) {}

  /// Collective: each rank calls it after each of the same number of batches.
  bool stops() {
    if (++batches_ < interval_) return false;
    std::array sums{stop_request_.made() ? 1.0 : 0.0, Seconds(Clock::now() - since_).count()};
    communicator_.all_reduce_sum(sums);
    const double seconds = sums[1] / communicator_.world().size;
    if (seconds < 0.05) interval_ *= 2;
    if (seconds > 0.2) interval_ = std::max<std::int64_t>(interval_ / 2, 1);
    batches_ = 0;
    since_ = Clock::now();
    return sums[0] > 0;
  }

 private:
  comm::Communicator& communicator_;
  const StopRequest& stop_request_;
  std::int64_t batches_ = 0;  ///< since the last vote
  std::int64_t interval_ = 1;
  Clock::time_point since_ = Clock::now();
};

/// Sums over this rank's targets.
struct Scores {
  double loss = 0;
  double correct = 0;
  double targets = 0;
  double top5 = 0;

  void add(const kernels::ControlBlock& control) {
    loss += control.loss;
    correct += control.correct;
    targets += control.targets;
    top5 += control.top5;
  }

  /// Collective: the means over the targets of all ranks.
  Evaluation mean(comm::Communicator& communicator, std::int64_t samples, std::int64_t classes) const {
    std::array sums{loss, correct, targets, top5};
    communicator.all_reduce_sum(sums);
    const double count = sums[2] > 0 ? sums[2] : 1;
    return {.loss = sums[0] / count,
            .accuracy = sums[1] / count,
            .samples = samples,
            .classes = classes > 0,
            .top5 = classes > 5 ? std::optional(sums[3] / count) : std::nullopt};
  }
};

}  // namespace

std::optional<Evaluation> evaluate(kernels::Device& device, comm::Communicator& communicator,
                                   ReplicaMemory& memory, Executor& executor, const PlanOfLength& plan_of,
                                   std::size_t slot, const data::DatasetPtr& dataset,
                                   const EvaluationOptions& options, const StopRequest& stop_request) {
  const comm::World& world = communicator.world();
  const std::int64_t samples = options.samples > 0 ? options.samples : dataset->size();
  const data::UnpaddedSampler sampler{
      .samples = samples, .replicas = world.size, .rank = world.rank, .set_size = dataset->size()};
  data::Loader loader(dataset, [&](std::int64_t) { return sampler.indices(); },
                      {.batch_size = options.batch_size,
                       .lengths = options.lengths,
                       .workers = options.num_workers,
                       .prefetch_factor = options.prefetch_factor,
                       .epochs = 1,
                       .device = options.pins_memory ? &device : nullptr,
                       .source = options.source});
  DevicePrefetcher prefetcher(loader, device, memory, options.timeout, options.activity);
  Activity::Work work(options.activity, std::string("evaluating"), Activity::Needs::peers);
  Scores scores;
  StopVote vote(communicator, stop_request);
  EvaluationProgress progress(samples, options.tell);
  // A rank may have a batch less than the others: it votes with them.
  const std::int64_t batches = parts_of(parts_of(samples, world.size), options.batch_size);
  for (std::int64_t done = 0; done < batches; ++done) {
    if (vote.stops()) return std::nullopt;
    const bool has_batch = prefetcher.fetch();
    if (has_batch) {
      const DeviceBatch batch = prefetcher.copy(slot);
      prefetcher.finish_copy();
      const auto rows = static_cast<std::int32_t>(batch.info.samples);
      memory.host_input(slot) = {.state = {.valid_samples = rows}, .control = {}};
      executor.run(plan_of(batch.info.length), slot);
      scores.add(memory.host_control(slot));
    }
    if (options.batch_done) options.batch_done(has_batch ? prefetcher.info().samples : 0);
    work.advance(static_cast<std::uint64_t>(done + 1), static_cast<std::uint64_t>(batches));
    progress.advance((done + 1) * options.batch_size * world.size);
  }
  return scores.mean(communicator, samples, dataset->spec().num_classes);
}

}  // namespace lockstep::runtime
