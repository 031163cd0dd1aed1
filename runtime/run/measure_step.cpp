#include "runtime/run/measure_step.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <string>

#include <fmt/format.h>

#include "kernels/base/deadline.h"
#include "kernels/base/philox.h"
#include "kernels/step_state.h"
#include "runtime/run/run_plans.h"
#include "runtime/step/executor.h"
#include "runtime/step/parameter_io.h"

namespace lockstep::runtime {
namespace {

constexpr std::size_t slot = 0;
constexpr int warm_up_rounds = 2;
constexpr double seconds_to_measure = 3;
constexpr int least_rounds = 7;
constexpr int most_rounds = 500;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// Of one step of several micro-batches, in their order without repetitions.
std::vector<MicroBatchRole> roles_of(std::int64_t micro_batches) {
  using enum MicroBatchRole;
  if (micro_batches == 1) return {only};
  if (micro_batches == 2) return {first, last};
  return {first, middle, last};
}

std::vector<Plan> plan_step(const Options& options, const TrainingTask& task, kernels::Device& device,
                            comm::Communicator& node) {
  PlanConstraints constraints = plan_constraints(options);
  std::vector<Plan> plans;
  const std::int64_t batch = batch_size_per_rank(options, 1);
  for (const MicroBatchRole role : roles_of(options.accumulate_steps)) {
    PlanRequest request =
        training_request(options, {.role = role, .batch = batch}, 1, {.exchange = false});
    request.schedule.defers = !options.detect_anomaly && !options.sync_bn;
    const auto plan = [&] { return make_plan(task.model, task.input, request, device, constraints); };
    plans.push_back(plan());
    if (plans.size() > 1) continue;
    constraints.parameter_layouts = parameter_layouts(plans.front().graph);
    if (options.benchmark) {
      const bool selects = node.world().rank == 0;
      KnownAlgorithms known;
      const std::string selected =
          selects ? to_text(benchmark_algorithms(plans.front().graph, device, known).selected)
                  : std::string();
      constraints.algorithms = selected_algorithms_from(node.all_gather(selected).front());
      plans.front() = plan();
    }
    constraints.arena = plans.front().arena;
  }
  return plans;
}

/// A replica that steps on data without meaning, and what its steps took.
class Stepper {
 public:
  Stepper(const Options& options, DType input, std::span<const Plan> plans, kernels::Device& device,
          comm::Communicator& node)
      : plans_(plans),
        node_(node),
        memory_(device, node, plans),
        executor_(device, node, memory_),
        stream_(device.make_stream()),
        times_(plans.size()),
        buckets_(plans.back().arena.buckets.size()) {
    std::size_t most_steps = 0;
    for (const Plan& plan : plans) most_steps = std::max(most_steps, plan.steps.size());
    ends_.resize(most_steps);
    for (std::size_t at = 0; at < plans.size(); ++at) times_[at].steps.resize(plans[at].steps.size());
    executor_.note_step_ends(ends_);
    ParameterIO(device, plans.front(), memory_).initialise(options.seed);
    set_input(options, input);
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

  /// Targets are left at 0, which is a class.
  void set_input(const Options& options, DType input) {
    const Plan& plan = plans_.front();
    const std::span pixels(static_cast<float*>(memory_.input(slot)), plan.input_bytes() / sizeof(float));
    if (input == DType::f32) Philox(options.seed, 0).normals(0, pixels);
    if (plan.states_bytes() > 0) std::memset(memory_.states(slot), 0, plan.states_bytes());
    const auto batch = static_cast<float>(plan.key().batch);
    kernels::StepInput& step = memory_.host_input(slot);
    step.state.valid_samples = static_cast<std::int32_t>(plan.key().batch);
    step.state.loss_scale = 1 / (batch * static_cast<float>(options.accumulate_steps));
    model::set_rate(options.optimizer, step.state);
  }

  void run_round() {
    node_.barrier();
    for (std::size_t at = 0; at < plans_.size(); ++at) {
      times_[at].whole.push_back(seconds_of(plans_[at]));
      note_steps(times_[at]);
    }
    if (node_.world().size == 1) return;
    for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
      const auto ranges = memory_.exchanged(plans_.back().arena.buckets[bucket]);
      const comm::ExchangeTiming timing = node_.all_reduce(ranges, {}, *stream_);
      buckets_[bucket].push_back(1e-9 * static_cast<double>(timing.transfer_ns));
    }
  }

  double seconds_of(const Plan& plan) {
    std::ranges::fill(ends_, Clock::time_point());
    start_ = Clock::now();
    executor_.run(plan, slot);
    return Seconds(Clock::now() - start_).count();
  }

  void note_steps(PlanTimes& of) {
    Clock::time_point begin = start_;
    for (std::size_t at = 0; at < of.steps.size(); ++at) {
      if (ends_[at] == Clock::time_point()) continue;
      of.steps[at].push_back(Seconds(ends_[at] - begin).count());
      begin = ends_[at];
    }
  }

  /// Rank 0's are all ranks'.
  int rounds_for(double seconds) {
    const double rounds = std::clamp<double>(seconds_to_measure / seconds, least_rounds, most_rounds);
    return std::stoi(node_.all_gather(std::to_string(static_cast<int>(rounds))).front());
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
    for (std::size_t at = 0; at < plans_.size(); ++at)
      times.work.push_back(work_of(plans_[at], times_[at]));
    for (const Samples& bucket : buckets_) {
      if (!bucket.empty()) times.memory_all_reduce.push_back(median(bucket));
    }
    const double all = std::accumulate(times.memory_all_reduce.begin(), times.memory_all_reduce.end(), 0.0);
    times.memory_seconds_per_byte = all / static_cast<double>(plans_.back().arena.gradient_bytes());
    return times;
  }

  const std::span<const Plan> plans_;
  comm::Communicator& node_;
  ReplicaMemory memory_;
  Executor executor_;
  const std::unique_ptr<kernels::Stream> stream_;
  Clock::time_point start_;
  std::vector<Clock::time_point> ends_;
  std::vector<PlanTimes> times_;
  std::vector<Samples> buckets_;  ///< their exchange within the node
};

}  // namespace

MeasuredStep measure_step(const Options& options, const TrainingTask& task, kernels::Device& device,
                          comm::Communicator& node) {
  std::vector<Plan> plans = plan_step(options, task, device, node);
  NodeTimes times = Stepper(options, task.input.dtype, plans, device, node).measure();
  return {.plans = std::move(plans), .times = std::move(times)};
}

}  // namespace lockstep::runtime
