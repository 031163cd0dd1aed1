#include "runtime/run/measure_step.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <span>
#include <string>

#include <fmt/format.h>

#include "kernels/base/deadline.h"
#include "runtime/run/practice_replica.h"
#include "runtime/run/rank_agreement.h"

namespace lockstep::runtime {
namespace {

constexpr int warm_up_rounds = 2;
constexpr double seconds_to_measure = 3;
constexpr int least_rounds = 7;
constexpr int most_rounds = 500;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// What the steps of a replica took.
class Stepper {
 public:
  Stepper(PracticeReplica& replica, std::span<const Plan> plans, kernels::Device& device,
          comm::Communicator& node)
      : replica_(replica),
        plans_(plans),
        node_(node),
        stream_(device.make_stream()),
        times_(plans.size()),
        buckets_(plans.back().arena.buckets.size()) {
    for (std::size_t at = 0; at < plans.size(); ++at) times_[at].steps.resize(plans[at].steps.size());
  }

  NodeTimes measure() {
    for (int round = 0; round < warm_up_rounds; ++round) run_round();
    double step = 0;
    for (const PlanTimes& plan : times_) step += slowest_median(plan.whole);
    const int rounds = rounds_for(step);
    for (PlanTimes& plan : times_) {
      plan.whole.clear();
      for (Samples& samples : plan.steps) samples.clear();
    }
    for (Samples& samples : buckets_) samples.clear();
    for (int round = 0; round < rounds; ++round) run_round();
    return result();
  }

 private:
  using Samples = std::vector<double>;
  struct PlanTimes {
    std::vector<Samples> steps;
    Samples whole;
  };

  void run_round() {
    node_.barrier();
    for (std::size_t at = 0; at < plans_.size(); ++at) {
      times_[at].whole.push_back(replica_.run(plans_[at]));
      replica_.for_each_step([&](std::size_t step, Clock::time_point begin, Clock::time_point end) {
        times_[at].steps[step].push_back(Seconds(end - begin).count());
      });
    }
    if (node_.world().size == 1) return;
    for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
      const auto ranges = replica_.memory().exchanged(plans_.back().arena.buckets[bucket]);
      const comm::ExchangeTiming timing = node_.all_reduce(ranges, {}, *stream_);
      buckets_[bucket].push_back(1e-9 * static_cast<double>(timing.transfer_ns));
    }
  }

  /// Rank 0's are all ranks'.
  int rounds_for(double seconds) {
    const double rounds = std::clamp<double>(seconds_to_measure / seconds, least_rounds, most_rounds);
    return static_cast<int>(rank0_number(node_, static_cast<std::int64_t>(rounds)));
  }

  /// Of the ranks' rounds, each as long as its slowest rank.
  double slowest_median(const Samples& mine) {
    Samples slowest = mine;
    for (const std::string& text : node_.all_gather(fmt::format("{:a}", fmt::join(mine, " ")))) {
      const char* at = text.c_str();
      for (double& sample : slowest) {
        char* end = nullptr;
        sample = std::max(sample, std::strtod(at, &end));
        at = end;
      }
    }
    return median(slowest);
  }

  WorkTimes work_of(const Plan& plan, const PlanTimes& measured) {
    WorkTimes work;
    double sum = 0;
    for (std::size_t at = 0; at < measured.steps.size(); ++at) {
      if (measured.steps[at].empty()) continue;
      const Step& step = plan.steps[at];
      sum += work[{step.kind, step.index}] = median(measured.steps[at]);
    }
    const double scale = slowest_median(measured.whole) / sum;
    for (auto& [what, seconds] : work) seconds *= scale;
    return work;
  }

  NodeTimes result() {
    NodeTimes times;
    for (std::size_t at = 0; at < plans_.size(); ++at) times.work.push_back(work_of(plans_[at], times_[at]));
    for (const Samples& bucket : buckets_) {
      if (!bucket.empty()) times.memory_all_reduce.push_back(median(bucket));
    }
    const double all = std::accumulate(times.memory_all_reduce.begin(), times.memory_all_reduce.end(), 0.0);
    times.memory_seconds_per_byte = all / static_cast<double>(plans_.back().arena.gradient_bytes());
    return times;
  }

  PracticeReplica& replica_;
  const std::span<const Plan> plans_;
  comm::Communicator& node_;
  const std::unique_ptr<kernels::Stream> stream_;
  std::vector<PlanTimes> times_;
  std::vector<Samples> buckets_;  ///< their exchange within the node
};

}  // namespace

MeasuredStep measure_step(const Options& options, const TrainingTask& task, kernels::Device& device,
                          comm::Communicator& node) {
  std::vector<Plan> plans = plan_practice_step(options, task, device, node);
  PracticeReplica replica(options, plans, device, node);
  NodeTimes times = Stepper(replica, plans, device, node).measure();
  return {.plans = std::move(plans), .times = std::move(times)};
}

}  // namespace lockstep::runtime
