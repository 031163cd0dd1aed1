#include "runtime/run/measure_tcp.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "comm/communicator.h"
#include "comm/make_communicator.h"
#include "comm/net/credentials.h"
#include "comm/net/tcp.h"
#include "kernels/base/cores.h"
#include "kernels/base/deadline.h"
#include "kernels/device.h"
#include "runtime/machine/local_ranks.h"
#include "runtime/run/practice_replica.h"
#include "runtime/run/rank_agreement.h"
#include "runtime/run/run_plans.h"
#include "runtime/step/exchange_queue.h"

namespace lockstep::runtime {
namespace {

constexpr int ranks = 2;
constexpr double least_pace = 25e6;  ///< bytes per second; below, what is measured would take long
constexpr double seconds_to_measure = 1;
constexpr double least_rounds = 3;
constexpr double most_rounds = 25;
constexpr std::size_t most_steps_alone = 9;
constexpr std::size_t least_steps_alone = 3;
constexpr double seconds_alone = 0.5;

/// Exchanges of one size, one behind another.
struct Burst {
  std::int64_t elements;
  std::size_t exchanges;
};
constexpr Burst small{.elements = 16, .exchanges = 32};

/// As the gradients of `plan` go between nodes, but not so many of them that it takes long.
Burst burst_of(const Plan& plan) {
  constexpr std::int64_t most_elements = std::int64_t{4} << 20;
  constexpr std::int64_t least_elements = std::int64_t{32} << 10;
  constexpr std::int64_t most_buckets = 16;
  const std::int64_t elements = std::clamp(plan.arena.elements, least_elements, most_elements);
  const std::int64_t buckets = std::clamp(elements / least_elements, std::int64_t{1}, most_buckets);
  return {.elements = rounded_up(elements / buckets, ranks * elements_of_a_line(DType::f32)),
          .exchanges = static_cast<std::size_t>(buckets)};
}

/// Of one exchange.
double bytes_more_than(const Burst& less, const Burst& more) {
  return static_cast<double>((more.elements - less.elements) * static_cast<std::int64_t>(sizeof(float)));
}

struct Sample {
  double seconds = 0;       ///< until the last exchange was done
  double core_seconds = 0;  ///< that compute lost meanwhile
  double whole = 0;         ///< until the step was done, too, that then ran
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// A rank that exchanges on its exchange queue while it computes steps, if it does.
class BusyRank {
 public:
  BusyRank(comm::Communicator& group, const Burst& largest, PracticeReplica* computes, const Plan& plan)
      : group_(group),
        computes_(computes),
        plan_(plan),
        device_(kernels::make_cpu_device(1)),
        stream_(device_->make_stream()),
        arena_(group.allocate_arena(DType::f32,
                                    largest.elements * static_cast<std::int64_t>(largest.exchanges))),
        queue_(largest.exchanges + small.exchanges, [this](std::size_t place) { exchange(place); }) {}

  /// Medians for one exchange, behind compute if this rank computes at all.
  Sample measure(const Burst& burst, bool behind_compute) {
    burst_ = burst;
    is_computing_ = behind_compute && computes_ != nullptr;
    group_.barrier();
    if (is_computing_) note_steps_alone();
    const Sample first = round();
    const int rounds = rounds_for(first.whole);
    std::vector<double> seconds;
    std::vector<double> core_seconds;
    for (int at = 0; at < rounds; ++at) {
      const Sample sample = round();
      seconds.push_back(sample.seconds);
      core_seconds.push_back(sample.core_seconds);
    }
    const auto exchanges = static_cast<double>(burst.exchanges);
    return {.seconds = median(seconds) / exchanges, .core_seconds = median(core_seconds) / exchanges};
  }

 private:
  void exchange(std::size_t place) {
    const auto first = static_cast<std::int64_t>(place) * burst_.elements;
    group_.all_reduce({.arena = &*arena_, .first = first, .count = burst_.elements}, {.behind_compute = true},
                      *stream_);
    last_done_ = Clock::now();
  }

  /// While the other rank computes too: they share caches and memory.
  void note_steps_alone() {
    std::vector<double> whole;
    std::vector<std::vector<double>> steps(plan_.steps.size());
    double all = 0;
    while (whole.size() < least_steps_alone || (whole.size() < most_steps_alone && all < seconds_alone)) {
      all += whole.emplace_back(computes_->run(plan_));
      computes_->for_each_step([&](std::size_t step, Clock::time_point begin, Clock::time_point end) {
        steps[step].push_back(Seconds(end - begin).count());
      });
    }
    alone_.assign(steps.size(), 0);
    for (std::size_t step = 0; step < steps.size(); ++step) {
      if (!steps[step].empty()) alone_[step] = median(steps[step]);
    }
    const double scale = median(whole) / std::accumulate(alone_.begin(), alone_.end(), 0.0);
    for (double& seconds : alone_) seconds *= scale;
  }

  /// What the run that ended last would have taken alone, as far as it had come at `until`.
  double computed(Clock::time_point until) const {
    double seconds = 0;
    computes_->for_each_step([&](std::size_t step, Clock::time_point begin, Clock::time_point end) {
      if (begin >= until) return;
      const double part = end <= until ? 1 : Seconds(until - begin) / Seconds(end - begin);
      seconds += part * alone_[step];
    });
    return seconds;
  }

  Sample round() {
    group_.barrier();
    const auto start = Clock::now();
    ExchangeQueue::Ticket last = 0;
    for (std::size_t place = 0; place < burst_.exchanges; ++place) last = queue_.post(place);
    double done = 0;
    bool is_counted = true;  // the last run
    while (is_computing_ && queue_.pending() > 0) {
      computes_->run(plan_);
      is_counted = queue_.pending() > 0;
      if (is_counted) done += computed(Clock::time_point::max());
    }
    const double whole = Seconds(Clock::now() - start).count();
    queue_.wait(last);
    const double seconds = Seconds(last_done_ - start).count();
    if (!is_counted) done += computed(last_done_);
    return {.seconds = seconds,
            .core_seconds = is_computing_ ? std::max(0.0, seconds - done) : 0,
            .whole = std::max(whole, seconds)};
  }

  /// Rank 0's are both ranks'.
  int rounds_for(double seconds) {
    const double rounds = std::clamp(seconds_to_measure / seconds, least_rounds, most_rounds);
    return static_cast<int>(rank0_number(group_, static_cast<std::int64_t>(rounds)));
  }

  comm::Communicator& group_;
  PracticeReplica* const computes_;
  bool is_computing_ = false;
  const Plan& plan_;
  const std::unique_ptr<kernels::Device> device_;
  const std::unique_ptr<kernels::Stream> stream_;
  const std::unique_ptr<comm::Arena> arena_;
  Burst burst_{};
  std::vector<double> alone_;    ///< by step of the plan
  Clock::time_point last_done_;  ///< of the queue's thread, until it is waited for
  ExchangeQueue queue_;          ///< last: its thread uses the rest
};

/// On one core both ranks take their time from the steps of one.
std::vector<double> measure_rank(const comm::World& world, const comm::CommOptions& comm_options,
                                 Options options, const TrainingTask& task, bool on_one_core) {
  const auto group = comm::make_communicator(world, comm_options);
  const auto alone = comm::make_communicator({}, {});
  const auto device = kernels::make_cpu_device(1);
  options.amp = amp_on(*device, options.amp);
  options.benchmark = false;
  const std::vector<Plan> plans = plan_practice_step(options, task, *device, *alone);
  PracticeReplica replica(options, plans, *device, *alone);
  const Burst burst = burst_of(plans.back());
  const bool computes = !on_one_core || world.rank == 0;
  BusyRank rank(*group, burst, computes ? &replica : nullptr, plans.back());
  const auto costs = [&, bytes = bytes_more_than(small, burst)](bool behind_compute) {
    const Sample less = rank.measure(small, behind_compute);
    const Sample more = rank.measure(burst, behind_compute);
    return std::vector<double>{less.seconds, std::max(0.0, more.seconds - less.seconds) / bytes,
                               less.core_seconds,
                               std::max(0.0, more.core_seconds - less.core_seconds) / bytes};
  };
  const std::vector<double> alone_costs = costs(false);
  const std::vector<double> busy = costs(true);
  const double share = on_one_core ? 1.0 / ranks : 1.0;
  return {alone_costs[0], alone_costs[1], busy[0], busy[1], share * busy[2], share * busy[3]};
}

}  // namespace

TcpTimes measure_tcp(const Options& options, const TrainingTask& task, double link_bytes_per_s) {
  // The ranks find secret and port in what they inherit; the port is free until rank 0 takes it.
  ::setenv("LOCKSTEP_TOKEN", comm::make_secret().c_str(), 1);
  const int port = comm::local_port(comm::listen_tcp("127.0.0.1", 0).get());
  // Each rank is on a single core, which its exchange and its compute share; both are on one if there is no
  // other.
  Cores cores = find_cores(affinity_mask());
  cores.cores.resize(static_cast<std::size_t>(std::min(cores.usable(), ranks)));
  const bool on_one_core = std::ssize(cores.cores) < ranks;
  const std::vector<double> numbers = run_local_ranks(ranks, cores.cores, [&](comm::World world) {
    world.master_port = port;
    world.master_port_is_ours = true;
    const comm::CommOptions pair{.timeout = Seconds(options.timeout),
                                 .encrypt_data = options.data_security == "tls",
                                 .node = fmt::format("node {}", world.rank),
                                 .most_bytes_per_s = std::max(link_bytes_per_s, least_pace)};
    return measure_rank(world, pair, options, task, on_one_core);
  });
  return {
      .alone = {numbers[0], numbers[1]}, .busy = {numbers[2], numbers[3]}, .core = {numbers[4], numbers[5]}};
}

}  // namespace lockstep::runtime
