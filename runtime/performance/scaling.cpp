#include "runtime/performance/scaling.h"

#include <algorithm>
#include <map>

#include "comm/tcp/node_traffic.h"
#include "kernels/embedding.h"
#include "kernels/row_list.h"

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

double bytes_of(const Bucket& bucket, const ArenaPlan& arena) {
  return static_cast<double>(bucket.count) * static_cast<double>(size_of(arena.gradient_dtype));
}

/// Of the nodes of `plan` in whose places `node` is: their own time, or that of embedding backward.
double seconds_of(const Plan& plan, const model::Node& node, const WorkTimes& work) {
  double seconds = 0;
  for (std::size_t at = 0; at < plan.graph.nodes().size(); ++at) {
    const model::Node& measured = plan.graph.nodes()[at];
    const bool became_rows = measured.op->as<kernels::EmbeddingBackward>() != nullptr &&
                             node.op->as<kernels::EmbeddingRows>() != nullptr &&
                             std::ranges::find(node.inputs, measured.inputs[0]) != node.inputs.end();
    if (measured.id != node.id && !became_rows) continue;
    const auto known = work.find({Step::Kind::launch, at});
    if (known != work.end()) seconds += known->second;
  }
  return seconds;
}

/// What was measured of `plan`, for the graph whose embeddings' gradients are rows and for other buckets,
/// which share out the time of all updates.
WorkTimes work_of(const Plan& plan, const model::Graph& graph, const ArenaPlan& arena,
                  const WorkTimes& measured) {
  WorkTimes work;
  std::map<Step::Kind, double> of_buckets{{Step::Kind::update, 0.0}, {Step::Kind::average, 0.0}};
  for (const auto& [what, seconds] : measured) {
    if (what.first == Step::Kind::launch) continue;
    const auto sum = of_buckets.find(what.first);
    (sum == of_buckets.end() ? work[what] : sum->second) += seconds;
  }
  for (std::size_t at = 0; at < graph.nodes().size(); ++at)
    work[{Step::Kind::launch, at}] = seconds_of(plan, graph.nodes()[at], measured);
  for (std::size_t bucket = 0; bucket < arena.buckets.size(); ++bucket) {
    const double share =
        static_cast<double>(arena.buckets[bucket].count) / static_cast<double>(arena.elements);
    for (const auto& [kind, seconds] : of_buckets) work[{kind, bucket}] = share * seconds;
  }
  return work;
}

/// Makes the schedules that a run on a cluster would have.
class ClusterPlan {
 public:
  ClusterPlan(std::span<const Plan> plans, const Cluster& cluster) {
    const PlanRequest& request = plans.front().request;
    BucketLimits limits = request.buckets;
    limits.ranks = cluster.ranks;
    limits.fine = cluster.nodes() > 1 && request.schedule.defers;
    for (const Plan& plan : plans) {
      roles_.push_back(plan.key().role);
      graphs_.push_back(plan.graph);
    }
    if (cluster.ranks > 1 && plans.size() == 1) {
      exchange_rows(graphs_.front(), {.way = plans.front().embedding_exchange,
                                      .ranks = cluster.ranks,
                                      .dtype = plans.front().arena.gradient_dtype});
    }
    arena_ = assign_buckets(graphs_.front(), limits);
    options_ = {.exchange = cluster.ranks > 1,
                .overlap = request.schedule.overlap,
                .clips = has(plans.back(), Step::Kind::clip),
                .averages = has(plans.back(), Step::Kind::average)};
    options_.defers = limits.fine && can_defer(graphs_.front(), arena_, options_);
  }

  const ArenaPlan& arena() const { return arena_; }
  const model::Graph& graph(std::size_t at) const { return graphs_[at]; }

  Schedule schedule(std::size_t at) const {
    const MicroBatchRole role = roles_[at];
    if (options_.defers) return schedule_deferring(graphs_[at], arena_, options_, role);
    return ends_step(role) ? schedule_training(graphs_[at], arena_, options_)
                           : schedule_nodes(graphs_[at], arena_, options_);
  }

 private:
  std::vector<MicroBatchRole> roles_;
  std::vector<model::Graph> graphs_;
  ArenaPlan arena_;
  ScheduleOptions options_;
};

/// Adds what an exchange between nodes takes of which a node sends so many bytes and a rank so many.
void add_tcp(const Cluster& cluster, const TcpTimes& tcp, double of_node, double of_rank,
             ExchangeTime& time) {
  const double peers = cluster.nodes() - 1;
  const double on_link = of_node / cluster.link_bytes_per_s;
  const double in_memory = time.seconds;
  time.seconds = tcp.alone.latency * peers + std::max(in_memory + tcp.alone.per_byte * of_rank, on_link);
  time.busy_seconds = tcp.busy.latency * peers + std::max(in_memory + tcp.busy.per_byte * of_rank, on_link);
  time.core_seconds += tcp.core.latency * peers + tcp.core.per_byte * of_rank;
}

/// Of a rank whose exchange has a core of its own.
ExchangeTime beside_compute(const ExchangeTime& time) {
  return {.seconds = time.seconds};
}

/// `node`, whose exchanges were measured in the buckets of `measured`, for those of `arena`.
NodeTimes times_for(const ArenaPlan& arena, const ArenaPlan& measured, const NodeTimes& node) {
  const auto& begins = &Bucket::first_parameter;
  if (std::ranges::equal(arena.buckets, measured.buckets, {}, begins, begins)) return node;
  NodeTimes times = node;
  times.memory_all_reduce.clear();
  for (const Bucket& bucket : arena.buckets)
    times.memory_all_reduce.push_back(node.memory_seconds_per_byte * bytes_of(bucket, arena));
  return times;
}

std::int64_t repeats_of(const Plan& plan) {
  return plan.key().role == MicroBatchRole::middle ? plan.request.micro_batches - 2 : 1;
}

}  // namespace

ExchangeTime exchange_time(const Cluster& cluster, const NodeTimes& node, const TcpTimes& tcp,
                           std::size_t bucket, std::size_t bytes, DType gradient_dtype) {
  const double in_memory = cluster.most_on_a_node() > 1 ? node.memory_all_reduce[bucket] : 0;
  ExchangeTime time{.seconds = in_memory, .core_seconds = in_memory};
  if (cluster.nodes() > 1) {
    const double sent = comm::sent_by_busiest_node(placement_of(cluster), bytes, gradient_dtype);
    add_tcp(cluster, tcp, sent, sent / cluster.most_on_a_node(), time);
  }
  return node.spare_core ? beside_compute(time) : time;
}

ExchangeTime rows_exchange_time(const Cluster& cluster, const NodeTimes& node, const TcpTimes& tcp,
                                std::size_t bytes) {
  const auto list = static_cast<double>(bytes);
  const int members = cluster.most_on_a_node();
  const double in_memory = node.memory_seconds_per_byte * list * (members > 1 ? cluster.ranks - 1 : 0);
  ExchangeTime time{.seconds = in_memory, .core_seconds = in_memory};
  if (cluster.nodes() > 1) {
    const double sent = list * (cluster.nodes() - 1);
    add_tcp(cluster, tcp, members * sent, sent, time);
  }
  return node.spare_core ? beside_compute(time) : time;
}

Timeline predict(std::span<const Plan> plans, const Cluster& cluster, const NodeTimes& node,
                 const TcpTimes& tcp) {
  const ClusterPlan planned(plans, cluster);
  const ArenaPlan& arena = planned.arena();
  std::vector<WorkTimes> work;
  std::vector<Schedule> schedules;
  for (std::size_t at = 0; at < plans.size(); ++at) {
    work.push_back(work_of(plans[at], planned.graph(at), arena, node.work[at]));
    schedules.push_back(planned.schedule(at));
  }
  std::vector<PlannedWork> step;
  for (std::size_t at = 0; at < plans.size(); ++at)
    step.push_back({.steps = schedules[at].steps, .work = work[at], .repeats = repeats_of(plans[at])});
  const NodeTimes times = times_for(arena, plans.front().arena, node);
  std::vector<ExchangeTime> exchanges;
  for (std::size_t bucket = 0; cluster.ranks > 1 && bucket < arena.buckets.size(); ++bucket) {
    const auto bytes = static_cast<std::size_t>(bytes_of(arena.buckets[bucket], arena));
    exchanges.push_back(exchange_time(cluster, times, tcp, bucket, bytes, arena.gradient_dtype));
  }
  std::vector<ExchangeTime> rows;
  for (const RowsSlice& slice : arena.rows)
    rows.push_back(rows_exchange_time(cluster, node, tcp, slice.list.bytes()));
  return simulate(step, exchanges, rows);
}

}  // namespace lockstep::runtime
