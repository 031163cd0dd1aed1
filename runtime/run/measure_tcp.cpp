#include "runtime/run/measure_tcp.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "comm/communicator.h"
#include "comm/make_communicator.h"
#include "comm/net/credentials.h"
#include "comm/net/tcp.h"
#include "kernels/base/deadline.h"
#include "kernels/base/host.h"
#include "kernels/device.h"
#include "runtime/machine/local_ranks.h"
#include "runtime/run/practice_replica.h"
#include "runtime/run/run_plans.h"
#include "runtime/step/exchange_queue.h"

namespace lockstep::runtime {
namespace {

constexpr int ranks = 2;
constexpr double least_pace = 25e6;  ///< bytes per second; below, what is measured would take long
constexpr double seconds_to_measure = 1.5;
constexpr double least_rounds = 5;
constexpr double most_rounds = 25;

/// Exchanges of one size, one behind another.
struct Burst {
  std::int64_t elements;
  std::size_t exchanges;
};
constexpr Burst small{.elements = 16, .exchanges = 32};

/// As the gradients of `plan` go between nodes, but not so many of them that it takes long.
Burst burst_of(const Plan& plan) {
  constexpr std::int64_t most = std::int64_t{4} << 20;
  const auto buckets = std::max<std::size_t>(1, std::min(plan.arena.buckets.size(), std::size_t{16}));
  const std::int64_t elements = std::clamp(plan.arena.elements, std::int64_t{1} << 16, most);
  return {.elements =
              round_up(elements / static_cast<std::int64_t>(buckets), ranks * elements_of_a_line(DType::f32)),
          .exchanges = buckets};
}

struct Sample {
  double seconds = 0;       ///< until the last exchange was done
  double core_seconds = 0;  ///< that compute lost meanwhile
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

  /// Medians for one exchange.
  Sample measure(const Burst& burst) {
    burst_ = burst;
    const Sample first = round(step_alone());
    const int rounds = rounds_for(first.seconds);
    std::vector<double> seconds;
    std::vector<double> core_seconds;
    for (int at = 0; at < rounds; ++at) {
      const Sample sample = round(step_alone());
      seconds.push_back(sample.seconds);
      core_seconds.push_back(sample.core_seconds);
    }
    const auto exchanges = static_cast<double>(burst.exchanges);
    return {median(seconds) / exchanges, median(core_seconds) / exchanges};
  }

 private:
  void exchange(std::size_t place) {
    const auto first = static_cast<std::int64_t>(place) * burst_.elements;
    group_.all_reduce({.arena = &*arena_, .first = first, .count = burst_.elements}, {.behind_compute = true},
                      *stream_);
    last_done_ = Clock::now();
  }

  /// While the other rank computes too: they share caches and memory.
  double step_alone() {
    group_.barrier();
    std::vector<double> seconds;
    for (int step = 0; computes_ != nullptr && step < 3; ++step) seconds.push_back(computes_->run(plan_));
    return computes_ == nullptr ? 0 : median(seconds);
  }

  Sample round(double step_alone) {
    group_.barrier();
    const auto start = Clock::now();
    ExchangeQueue::Ticket last = 0;
    for (std::size_t place = 0; place < burst_.exchanges; ++place) last = queue_.post(place);
    double computed = 0;
    while (computes_ != nullptr && queue_.pending() > 0) {
      computes_->run(plan_);
      computed += step_alone;
    }
    const double all = Seconds(Clock::now() - start).count();
    queue_.wait(last);
    return {Seconds(last_done_ - start).count(), computes_ == nullptr ? 0 : std::max(0.0, all - computed)};
  }

  /// Rank 0's are both ranks'.
  int rounds_for(double seconds) {
    const double rounds = std::clamp(seconds_to_measure / seconds, least_rounds, most_rounds);
    return std::stoi(group_.all_gather(std::to_string(static_cast<int>(rounds))).front());
  }

  comm::Communicator& group_;
  PracticeReplica* const computes_;
  const Plan& plan_;
  const std::unique_ptr<kernels::Device> device_;
  const std::unique_ptr<kernels::Stream> stream_;
  const std::unique_ptr<comm::Arena> arena_;
  Burst burst_{};
  Clock::time_point last_done_;  ///< of the queue's thread, until it is waited for
  ExchangeQueue queue_;          ///< last: its thread uses the rest
};

/// On one core both ranks take their time from the steps of one.
std::vector<double> measure_rank(const comm::World& world, const comm::CommOptions& comm_options,
                                 const Options& options, const TrainingTask& task, bool on_one_core) {
  const auto group = comm::make_communicator(world, comm_options);
  const auto alone = comm::make_communicator({}, {});
  const auto device = kernels::make_cpu_device(1);
  const std::vector<Plan> plans = plan_practice_step(options, task, *device, *alone);
  PracticeReplica replica(options, task.input.dtype, plans, *device, *alone);
  const Burst burst = burst_of(plans.back());
  const bool computes = !on_one_core || world.rank == 0;
  BusyRank rank(*group, burst, computes ? &replica : nullptr, plans.back());
  const Sample short_one = rank.measure(small);
  const Sample long_one = rank.measure(burst);
  const double bytes =
      static_cast<double>((burst.elements - small.elements) * static_cast<std::int64_t>(sizeof(float)));
  const double share = on_one_core ? 1.0 / ranks : 1.0;
  return {short_one.seconds, share * short_one.core_seconds,
          share * std::max(0.0, long_one.core_seconds - short_one.core_seconds) / bytes};
}

}  // namespace

TcpTimes measure_tcp(const Options& given, const TrainingTask& task, double link_bytes_per_s) {
  // The ranks find secret and port in what they inherit; the port is free until rank 0 takes it.
  ::setenv("LOCKSTEP_TOKEN", comm::make_secret().c_str(), 1);
  const int port = comm::local_port(comm::listen_tcp("127.0.0.1", 0).get());
  Options options = given;
  options.benchmark = false;
  const auto cores = static_cast<int>(affinity_mask().size());
  // Each rank is on a single core, which its exchange and its compute share.
  const std::vector<double> times = run_local_ranks(ranks, std::max(cores, ranks), [&](comm::World world) {
    world.master_port = port;
    world.master_port_is_ours = true;
    const comm::CommOptions comm_options{.timeout = Seconds(options.timeout),
                                         .encrypt_data = options.data_security == "tls",
                                         .node = fmt::format("node {}", world.rank),
                                         .most_bytes_per_s = std::max(link_bytes_per_s, least_pace)};
    return measure_rank(world, comm_options, options, task, cores < ranks);
  });
  return {.latency = times[0], .core_seconds = times[1], .core_seconds_per_byte = times[2]};
}

}  // namespace lockstep::runtime
