#include "runtime/plan/scaling.h"

#include <algorithm>

#include "comm/tcp/node_traffic.h"

namespace lockstep::runtime {
namespace {

comm::Placement placement_of(const Cluster& cluster) {
  std::vector<int> nodes;
  for (int rank = 0; rank < cluster.ranks; ++rank) nodes.push_back(rank / cluster.ranks_per_node);
  return comm::Placement(nodes);
}

bool has(const Plan& plan, Step::Kind kind) {
  return std::ranges::find(plan.steps, kind, &Step::kind) != plan.steps.end();
}

}  // namespace

ExchangeTime exchange_time(const Cluster& cluster, const NodeTimes& node, const TcpTimes& tcp,
                           std::size_t bucket, std::size_t bytes, DType gradient_dtype) {
  const double in_memory = cluster.most_on_a_node() > 1 ? node.memory_all_reduce[bucket] : 0;
  ExchangeTime time{.seconds = in_memory, .core_seconds = in_memory};
  if (cluster.nodes() > 1) {
    const double sent = comm::sent_by_busiest_node(placement_of(cluster), bytes, gradient_dtype);
    time.core_seconds += tcp.core_seconds_per_byte * sent / cluster.most_on_a_node();
    time.seconds =
        tcp.latency * (cluster.nodes() - 1) + std::max(time.core_seconds, sent / cluster.link_bytes_per_s);
  }
  if (node.spare_core) time.core_seconds = 0;
  return time;
}

Timeline predict(const Plan& plan, const Cluster& cluster, const NodeTimes& node, const TcpTimes& tcp) {
  BucketLimits limits = plan.request.buckets;
  limits.ranks = cluster.ranks;
  const ArenaPlan arena = assign_buckets(plan.graph, limits);
  const ScheduleOptions schedule{.exchange = cluster.ranks > 1,
                                 .overlap = plan.request.schedule.overlap,
                                 .clips = has(plan, Step::Kind::clip),
                                 .averages = has(plan, Step::Kind::average)};
  std::vector<ExchangeTime> exchanges;
  for (std::size_t bucket = 0; schedule.exchange && bucket < arena.buckets.size(); ++bucket) {
    const std::size_t bytes =
        static_cast<std::size_t>(arena.buckets[bucket].count) * size_of(arena.gradient_dtype);
    exchanges.push_back(exchange_time(cluster, node, tcp, bucket, bytes, arena.gradient_dtype));
  }
  Timeline timeline = simulate(schedule_training(plan.graph, arena, schedule).steps, node.work, exchanges);
  timeline.step += node.micro_batches_before;
  timeline.compute += node.micro_batches_before;
  return timeline;
}

}  // namespace lockstep::runtime
