#include "runtime/performance/scaling.h"

#include <span>
#include <string>

#include "kernels/base/error.h"
#include "runtime/commands/scaling.h"
#include "runtime/machine/local_ranks.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch_folder.h"
#include "tests/unit/runtime/small_plans.h"

namespace lockstep::runtime {
namespace {

constexpr std::size_t bytes = 1200;

ExchangeTime time_of(const Cluster& cluster, const NodeTimes& node, const TcpTimes& tcp = {},
                     DType dtype = DType::f32) {
  return exchange_time(cluster, node, tcp, 0, bytes, dtype);
}

TEST_CASE("scaling: on one node an exchange takes what it takes in memory, on the rank's core") {
  const NodeTimes node{.memory_all_reduce = {0.5}};
  const Cluster cluster{.ranks = 2, .ranks_per_node = 2};
  CHECK(time_of(cluster, node).seconds == 0.5);
  CHECK(time_of(cluster, node).core_seconds == 0.5);
  const NodeTimes spare{.memory_all_reduce = {0.5}, .spare_core = true};
  CHECK(time_of(cluster, spare).seconds == 0.5);
  CHECK(time_of(cluster, spare).core_seconds == 0);
}

TEST_CASE(
    "scaling: between nodes the slower of link and measured exchange sets the pace, after the latency") {
  const TcpTimes tcp{.alone = {.latency = 0.25, .per_byte = 0.001},
                     .busy = {.latency = 0.5, .per_byte = 0.002},
                     .core = {.latency = 0.125, .per_byte = 0.0005}};
  const Cluster slow{.ranks = 2, .ranks_per_node = 1, .link_bytes_per_s = 100};
  CHECK(time_of(slow, {}, tcp).seconds == 0.25 + 12);
  CHECK(time_of(slow, {}, tcp).busy_seconds == 0.5 + 12);
  CHECK(time_of(slow, {}, tcp).core_seconds == Approx(0.125 + 0.6));
  const Cluster fast{.ranks = 2, .ranks_per_node = 1, .link_bytes_per_s = 1e9};
  CHECK(time_of(fast, {}, tcp).seconds == Approx(0.25 + 1.2));
  CHECK(time_of(fast, {}, tcp).busy_seconds == Approx(0.5 + 2.4));
  const ExchangeTime spare = time_of(fast, {.spare_core = true}, tcp);
  CHECK(spare.core_seconds == 0);
  CHECK(spare.behind_compute() == spare.seconds);
  const Cluster three{.ranks = 3, .ranks_per_node = 1, .link_bytes_per_s = 1e9};  // a latency more
  CHECK(time_of(three, {}, tcp).seconds == Approx(2 * 0.25 + 0.001 * bytes * 4 / 3));
}

TEST_CASE("scaling: a node sends as a ring does, 2 (N-1)/N of a bucket") {
  for (const int ranks : {2, 3, 4, 8}) {
    const Cluster cluster{.ranks = ranks, .ranks_per_node = 1, .link_bytes_per_s = bytes};
    CHECK(time_of(cluster, {}).seconds == Approx(2.0 * (ranks - 1) / ranks));
  }
}

TEST_CASE("scaling: ranks of a node share its link, and sums of several bf16 ranks travel in f32") {
  const NodeTimes node{.memory_all_reduce = {0}};
  const Cluster cluster{.ranks = 4, .ranks_per_node = 2, .link_bytes_per_s = bytes};
  CHECK(time_of(cluster, node).seconds == Approx(1.0));
  CHECK(time_of(cluster, node, {}, DType::bf16).seconds == Approx(1.5));
  const Cluster uneven{.ranks = 6, .ranks_per_node = 3, .link_bytes_per_s = bytes};  // two subtrees a node
  CHECK(time_of(uneven, node).seconds == Approx((3.0 * 2 + 3) / 6));
}

/// A second for each step.
WorkTimes work_of(const Plan& plan) {
  WorkTimes work;
  for (const Step& step : plan.steps) work[{step.kind, step.index}] = 1;
  return work;
}

TEST_CASE("scaling: a predicted step has the schedule of its ranks") {
  const auto device = kernels::make_cpu_device(1);
  const Plan plan = testing::plan_with_many_buckets(*device, {.exchange = false});
  const NodeTimes node{.work = {work_of(plan)},
                       .memory_all_reduce = std::vector(plan.arena.buckets.size(), 2.0)};
  const std::span plans(&plan, 1);
  const auto one = predict(plans, {.ranks = 1, .ranks_per_node = 2}, node, {});
  CHECK(one.step == Approx(static_cast<double>(plan.steps.size())));
  CHECK(one.exposed() == 0);
  const auto two = predict(plans, {.ranks = 2, .ranks_per_node = 2}, node, {});
  CHECK(two.exchange == Approx(2.0 * static_cast<double>(plan.arena.buckets.size())));
  CHECK(two.exposed() == Approx(two.exchange));  // each on the core that computes
  CHECK(two.compute == Approx(one.compute));
}

TEST_CASE("scaling: between nodes a predicted step leaves its updates to the next, where the run would") {
  const auto device = kernels::make_cpu_device(1);
  const auto predicted = [&](const ScheduleOptions& schedule, double clip_grad_norm = 0) {
    const Plan plan = testing::plan_with_many_buckets(*device, schedule, clip_grad_norm);
    const NodeTimes node{.work = {work_of(plan)}};
    // An exchange of 20 s, of which forward hides a part.
    const auto bytes_of_all = static_cast<double>(plan.arena.gradient_bytes());
    const Cluster cluster{.ranks = 2, .ranks_per_node = 1, .link_bytes_per_s = bytes_of_all / 20};
    return predict(std::span(&plan, 1), cluster, node, {});
  };
  const Timeline plain = predicted({.exchange = false});
  const Timeline deferring = predicted({.exchange = false, .defers = true});
  CHECK(deferring.exchange == Approx(plain.exchange).epsilon(0.01));
  CHECK(deferring.compute == Approx(plain.compute));
  CHECK(deferring.step < plain.step - 1);
  CHECK(deferring.step >= deferring.exchange);
  CHECK(predicted({.exchange = false, .defers = true}, 1.0).step ==
        Approx(predicted({.exchange = false}, 1.0).step));
}

TEST_CASE("scaling: the options of a prediction, and what contradicts itself") {
  std::vector<std::string> words{"--model", "mlp", "--ranks=8", "--link", "2.5", "--nproc_per_node", "4"};
  const ScalingRequest request = take_scaling_request(words);
  CHECK(words == std::vector<std::string>{"--model", "mlp"});
  CHECK(request.ranks == 8);
  CHECK(request.ranks_per_node == 4);
  CHECK(request.link_gigabits == 2.5);
  const auto taken = [](std::vector<std::string> given) { return take_scaling_request(given); };
  CHECK(taken({}).ranks == 0);
  CHECK(taken({"--ranks", "4"}).ranks_per_node == 4);
  CHECK(taken({"--ranks", "4", "--link", "1"}).ranks_per_node == 1);
  const auto refusal = [&](std::vector<std::string> given) {
    return tests::message_of<UsageError>([&] { taken(given); });
  };
  CHECK(refusal({"--link", "1"}).find("--ranks N") != std::string::npos);
  CHECK(refusal({"--ranks", "0"}).find("--ranks: ") != std::string::npos);
  CHECK(refusal({"--ranks"}) == "--ranks needs a value");
  CHECK(refusal({"--ranks", "4", "--nproc-per-node", "2"}).find("--link GBIT") != std::string::npos);
}

TEST_CASE("scaling: ranks of this machine run in processes of their own, and rank 0 answers") {
  const auto numbers = run_local_ranks(2, {}, [](const comm::World& world) {
    return std::vector<double>{static_cast<double>(world.rank), static_cast<double>(world.size), 0.1};
  });
  CHECK(numbers == std::vector{0.0, 2.0, 0.1});
  const auto fail = [] {
    run_local_ranks(1, {}, [](const comm::World&) -> std::vector<double> { throw UsageError("not so"); });
  };
  CHECK(tests::message_of<Error>(fail) == "not so");
}

TEST_CASE("scaling: a rank is bound to its slice, if there are slices") {
  const auto cpus_of_rank_0 = [](const std::vector<CpuList>& slices) {
    return run_local_ranks(1, slices, [](const comm::World&) {
      const CpuList cpus = affinity_mask();
      return std::vector<double>(cpus.begin(), cpus.end());
    });
  };
  const CpuList mask = affinity_mask();
  const std::vector<CpuList> slices{{mask.back()}, {mask.front()}};
  CHECK(cpus_of_rank_0(slices) == std::vector{static_cast<double>(mask.back())});
  CHECK(cpus_of_rank_0({}) == std::vector<double>(mask.begin(), mask.end()));
}

TEST_CASE("scaling: ranks have the threads and the whole cores that launch gives them") {
  const tests::ScratchFolder root;
  root.write("sys/devices/system/cpu/smt/active", "1\n");
  CpuList cpus;
  for (int cpu = 0; cpu < 16; ++cpu) {
    cpus.push_back(cpu);
    root.write("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
               std::to_string(cpu % 8) + "," + std::to_string(cpu % 8 + 8) + "\n");
  }
  const auto cores_for = [&](int ranks, int threads = 0, int omp_threads = 0) {
    return cores_of_ranks({.ranks = ranks, .ranks_per_node = ranks}, find_cores(cpus, root.path()), threads,
                          omp_threads);
  };
  const std::vector<CpuList> halves{{0, 1, 2, 3, 8, 9, 10, 11}, {4, 5, 6, 7, 12, 13, 14, 15}};
  CHECK(cores_for(1).threads == 8);
  CHECK(cores_for(1).slices.empty());
  CHECK(cores_for(2).threads == 4);
  CHECK(cores_for(2).slices == halves);
  CHECK_FALSE(cores_for(2).has_spare);
  CHECK(cores_for(2, 3).has_spare);
  CHECK(cores_for(2, 8).slices == halves);
  CHECK(cores_for(2, 0, 8).threads == 8);
  CHECK(cores_for(2, 0, 8).slices.empty());
  CHECK(tests::message_of<UsageError>([&] { cores_for(2, 9); }).find("has 16 CPUs") != std::string::npos);

  root.write("proc/self/cgroup", "0::/\n");
  root.write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  CHECK(cores_for(2).threads == 1);
  CHECK(cores_for(2).slices == halves);
  CHECK_FALSE(cores_for(2).has_spare);
  CHECK(tests::message_of<UsageError>([&] { cores_for(2, 2); }).find("has 2 CPUs") != std::string::npos);
}

}  // namespace
}  // namespace lockstep::runtime
