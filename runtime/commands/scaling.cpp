#include "runtime/commands/scaling.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "comm/communicator.h"
#include "comm/make_communicator.h"
#include "comm/world/environment.h"
#include "kernels/base/cores.h"
#include "kernels/base/error.h"
#include "kernels/base/number.h"
#include "runtime/commands/take_option.h"
#include "runtime/machine/local_ranks.h"
#include "runtime/machine/open_device.h"
#include "runtime/performance/gpu_profile.h"
#include "runtime/performance/scaling.h"
#include "runtime/run/measure_step.h"
#include "runtime/run/measure_tcp.h"
#include "runtime/run/run_plans.h"
#include "runtime/run/task.h"

namespace lockstep::runtime {
namespace {

constexpr Range<std::int64_t> rank_counts{1, 4096};
constexpr Range<double> link_rates{0.001, 10000};

/// What is left of an Ethernet frame of 1538 bytes on the wire, preamble and gap included, for TCP's payload.
constexpr double payload_share = 1448.0 / 1538.0;

template <class Number>
Number take_number(std::vector<std::string>& arguments, std::string_view name, Range<Number> range) {
  const std::string text = take_value(arguments, name);
  if (text.empty()) return 0;
  try {
    return number_in(text, range);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{}: {}", name, error.what()));
  }
}

/// Powers of two below `ranks`, and it.
std::vector<int> rank_counts_up_to(int ranks) {
  std::vector<int> counts;
  for (int count = 1; count < ranks; count *= 2) counts.push_back(count);
  counts.push_back(ranks);
  return counts;
}

/// On one rank of a node: the numbers of each cluster's timeline.
std::vector<double> predict_from_here(const comm::World& world, const Options& given,
                                      const TrainingTask& task, const std::vector<Cluster>& clusters,
                                      const TcpTimes& tcp, bool has_spare_core) {
  const auto device = open_device(given, world);
  if (!device->is_cpu()) throw UsageError("--ranks predicts runs on CPUs: add --device cpu");
  Options options = given;
  options.amp = amp_on(*device, given.amp);
  const auto node = comm::make_communicator(world, {.timeout = Seconds(options.timeout)});
  MeasuredStep measured = measure_step(options, task, *device, *node);
  measured.times.spare_core = has_spare_core;
  std::vector<double> numbers;
  for (const Cluster& cluster : clusters) {
    const Timeline timeline = predict(measured.plans, cluster, measured.times, tcp);
    numbers.insert(numbers.end(), {timeline.step, timeline.compute, timeline.exchange, timeline.held});
  }
  return numbers;
}

/// Hardware threads count: as many threads of a rank run at the same time, if the user wants them.
void require_cpus(int ranks, int threads, const Cores& cores) {
  int cpus = 0;
  for (const CpuList& core : cores.cores) cpus += static_cast<int>(core.size());
  cpus = cpus_within(cores.quota, cpus);
  if (ranks * threads <= cpus) return;
  throw UsageError(fmt::format(
      "{} ranks a node x {} threads are measured at the same time, and this process has {} CPUs: fewer "
      "--nproc-per-node or --threads",
      ranks, threads, cpus));
}

/// Measures each number of ranks that a node has in one of them.
std::vector<Timeline> measure_and_predict(const Options& options, const TrainingTask& task,
                                          const std::vector<Cluster>& clusters, const RankCores& cores) {
  const TcpTimes tcp =
      clusters.back().nodes() > 1 ? measure_tcp(options, task, clusters.back().link_bytes_per_s) : TcpTimes{};
  std::vector<Timeline> timelines;
  while (timelines.size() < clusters.size()) {
    const int busy = clusters[timelines.size()].most_on_a_node();
    std::vector<Cluster> alike;
    std::ranges::copy_if(clusters, std::back_inserter(alike),
                         [busy](const Cluster& cluster) { return cluster.most_on_a_node() == busy; });
    const std::vector<double> numbers = run_local_ranks(busy, cores.slices, [&](const comm::World& world) {
      return predict_from_here(world, options, task, alike, tcp, cores.has_spare);
    });
    for (std::size_t at = 0; at < numbers.size(); at += 4) {
      timelines.push_back({.step = numbers[at],
                           .compute = numbers[at + 1],
                           .exchange = numbers[at + 2],
                           .held = numbers[at + 3]});
    }
  }
  return timelines;
}

void print_table(const std::vector<Cluster>& clusters, const std::vector<Timeline>& timelines,
                 double samples) {
  if (std::ranges::any_of(timelines, [](const Timeline& timeline) { return timeline.held > 0; }))
    fmt::print("held: buckets that are exchanged in the next step's forward, which updates them\n");
  fmt::print("{:>6} {:>6} {:>10} {:>11} {:>12} {:>11} {:>12} {:>11} {:>10}\n", "ranks", "nodes", "step ms",
             "compute ms", "exchange ms", "exposed ms", "samples/s", "efficiency", "held");
  for (std::size_t row = 0; row < clusters.size(); ++row) {
    const Timeline& timeline = timelines[row];
    const int ranks = clusters[row].ranks;
    fmt::print("{:>6} {:>6} {:>10.3f} {:>11.3f} {:>12.3f} {:>11.3f} {:>12.1f} {:>10.1f}% {:>10.1f}\n", ranks,
               clusters[row].nodes(), 1e3 * timeline.step, 1e3 * timeline.compute, 1e3 * timeline.exchange,
               1e3 * timeline.exposed(), ranks * samples / timeline.step,
               100 * timelines.front().step / timeline.step, timeline.held);
  }
}

}  // namespace

ScalingRequest take_scaling_request(std::vector<std::string>& arguments) {
  ScalingRequest request{.gpu = take_value(arguments, "--for")};
  request.ranks = static_cast<int>(take_number(arguments, "--ranks", rank_counts));
  request.ranks_per_node = static_cast<int>(take_number(arguments, "--nproc-per-node", rank_counts));
  request.link_gigabits = take_number(arguments, "--link", link_rates);
  if (!request.gpu.empty() && request.ranks == 0) request.ranks = 1;
  if (request.ranks == 0 && (request.ranks_per_node > 0 || request.link_gigabits > 0)) {
    throw UsageError("--nproc-per-node and --link go with --ranks N, which predicts N ranks");
  }
  if (request.ranks_per_node == 0) request.ranks_per_node = request.link_gigabits > 0 ? 1 : request.ranks;
  if (request.ranks > request.ranks_per_node && request.link_gigabits == 0) {
    throw UsageError(fmt::format("--ranks {} are {} on each node: --link GBIT says how fast nodes are joined",
                                 request.ranks, request.ranks_per_node));
  }
  return request;
}

std::string scaling_help() {
  return fmt::format(
      "\nOnly `trainer plan` takes these. It measures the kernels of a step here, with all ranks of a node "
      "running at once, and predicts more ranks from that. With --for it uses the GPU's published figures; "
      "the GPU need not be here:\n"
      "  --for GPU             {},\n"
      "                        a FILE.json like runtime/performance/gpus/h100.json, or all for a table of "
      "these\n"
      "  --ranks N             what a step takes on 1, 2, 4, ... N ranks\n"
      "  --link GBIT           Gbit/s between nodes, in each direction (none: all ranks are on one node)\n"
      "  --nproc-per-node N    ranks of a node, which share its link (1 with --link)\n",
      fmt::join(gpu_names(), ", "));
}

std::vector<Cluster> clusters_of(const ScalingRequest& request) {
  std::vector<Cluster> clusters;
  for (const int ranks : rank_counts_up_to(request.ranks)) {
    clusters.push_back({.ranks = ranks,
                        .ranks_per_node = request.ranks_per_node,
                        .link_bytes_per_s = request.link_gigabits * 1e9 / 8 * payload_share});
  }
  return clusters;
}

RankCores cores_of_ranks(const ScalingRequest& request, const Cores& cores, int threads, int omp_threads) {
  const int own = cores.per_rank(request.ranks_per_node);
  if (threads == 0) threads = omp_threads > 0 ? omp_threads : own;
  require_cpus(std::min(request.ranks, request.ranks_per_node), threads, cores);
  return {.threads = threads,
          .slices = slice_cores(cores, request.ranks_per_node, omp_threads),
          .has_spare = threads < own};
}

void print_scaling(const Options& given, const ScalingRequest& request) {
  const RankCores cores = cores_of_ranks(request, find_cores(affinity_mask()), given.threads,
                                         comm::omp_threads(comm::process_environment()));
  Options options = given;
  options.batch_size = batch_size_per_rank(given, request.ranks);
  options.global_batch = 0;
  options.threads = cores.threads;
  const TrainingTask task = make_task_without_data(options);
  const std::vector<Cluster> clusters = clusters_of(request);
  const std::vector<Timeline> timelines = measure_and_predict(options, task, clusters, cores);
  fmt::print("{}: {} x batch {} per rank, {} thread{}\n", task.model.name, options.accumulate_steps,
             options.batch_size, options.threads, options.threads == 1 ? "" : "s");
  print_table(clusters, timelines, static_cast<double>(options.batch_size * options.accumulate_steps));
}

}  // namespace lockstep::runtime
