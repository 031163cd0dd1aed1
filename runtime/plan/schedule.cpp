#include "runtime/plan/schedule.h"

#include <algorithm>

#include <fmt/format.h>

namespace lockstep::runtime {
namespace {

using Kind = Step::Kind;
constexpr StreamName compute = StreamName::compute;
constexpr StreamName exchange = StreamName::exchange;

/// A schedule under construction.
class Builder {
 public:
  Builder(const model::Graph& graph, const ScheduleOptions& options)
      : graph_(graph), stream_ordered_(options.stream_ordered) {
    add(Kind::copy_in);
    add(Kind::begin_step);
  }

  void add(Kind kind, std::size_t index = 0, StreamName stream = compute) {
    schedule_.steps.push_back({.kind = kind, .stream = stream, .index = index});
  }
  void queue(Kind kind, std::size_t index) {
    schedule_.steps.push_back({.kind = kind, .stream = exchange, .index = index, .queued = true});
    is_queue_empty_ = false;
  }
  /// A communicator serves one thread at a time.
  void join() {
    if (!is_queue_empty_) add(Kind::join);
    is_queue_empty_ = true;
  }

  /// With the exchange of the statistics that it writes.
  void launch(std::size_t node, StreamName stream = compute) {
    add(Kind::launch, node, stream);
    for (const model::ValueId id : graph_.nodes()[node].outputs) {
      if (graph_.value(id).role == model::Role::statistics) sum_statistics(id);
    }
  }

  void update(std::size_t bucket, bool averages, StreamName stream = compute) {
    add(Kind::update, bucket, stream);
    if (averages) add(Kind::average, bucket, stream);
  }

  Schedule end() {
    add(Kind::copy_back);
    return std::move(schedule_);
  }

  std::size_t event(std::string name) {
    schedule_.events.push_back(std::move(name));
    return schedule_.events.size() - 1;
  }
  /// Work added to `later` from here on starts after the work on `earlier` so far.
  void order(StreamName earlier, StreamName later, std::string event_name) {
    const std::size_t at = event(std::move(event_name));
    add(Kind::record, at, earlier);
    add(Kind::wait, at, later);
  }

 private:
  void sum_statistics(model::ValueId id) {
    const auto& all = graph_.statistics();
    const auto index = static_cast<std::size_t>(std::ranges::find(all, id) - all.begin());
    if (!stream_ordered_) {
      join();
      return add(Kind::sum_statistics, index);
    }
    order(compute, exchange, fmt::format("statistics {} ready", index));
    add(Kind::sum_statistics, index, exchange);
    order(exchange, compute, fmt::format("statistics {} summed", index));
  }

  const model::Graph& graph_;
  const bool stream_ordered_;
  Schedule schedule_;
  bool is_queue_empty_ = true;
};

/// Nodes behind these change buffers, as updates of parameters change those.
std::size_t nodes_before_updates(const model::Graph& graph) {
  const auto& nodes = graph.nodes();
  const auto first = std::ranges::find_if(nodes, [&](const auto& node) { return graph.is_update(node); });
  return static_cast<std::size_t>(first - nodes.begin());
}

std::string gradients_ready(std::size_t bucket) {
  return fmt::format("gradients {} ready", bucket);
}

/// Without an exchange, or with one that occupies a thread: the exchange queue's while compute continues,
/// else the walking thread. All updates come at the end.
class ThreadSchedule {
 public:
  ThreadSchedule(const model::Graph& graph, const ArenaPlan& arena, const ScheduleOptions& options)
      : ready_(bucket_ready_nodes(graph, arena)),
        nodes_(nodes_before_updates(graph)),
        end_(graph.nodes().size()),
        options_(options),
        build_(graph, options) {}

  Schedule make() {
    for (std::size_t node = 0; node < nodes_; ++node) {
      build_.launch(node);
      if (options_.exchange && options_.overlap) hand_over_ready(node);
    }
    if (options_.exchange) sum_the_rest();
    update();
    return build_.end();
  }

 private:
  /// The last bucket has no compute behind it.
  void hand_over_ready(std::size_t node) {
    while (summed_.size() + 1 < ready_.size() && ready_[summed_.size()] <= node && node + 1 < nodes_) {
      const std::size_t bucket = summed_.size();
      const std::size_t ready = build_.event(gradients_ready(bucket));
      summed_.push_back(build_.event(fmt::format("bucket {} summed", bucket)));
      build_.add(Kind::record, ready);
      build_.queue(Kind::wait, ready);
      build_.queue(Kind::all_reduce, bucket);
      build_.queue(Kind::record, summed_.back());
    }
  }

  void sum_the_rest() {
    build_.join();
    while (summed_.size() < ready_.size()) {
      const std::size_t bucket = summed_.size();
      build_.order(compute, exchange, gradients_ready(bucket));
      build_.add(Kind::all_reduce_inline, bucket, exchange);
      summed_.push_back(build_.event(fmt::format("bucket {} summed", bucket)));
      build_.add(Kind::record, summed_.back(), exchange);
    }
  }

  void update() {
    if (options_.clips) {
      for (const std::size_t event : summed_) build_.add(Kind::wait, event);
      build_.add(Kind::clip);
    }
    for (std::size_t node = nodes_; node < end_; ++node) build_.add(Kind::launch, node);
    for (std::size_t bucket = 0; bucket < ready_.size(); ++bucket) {
      if (!options_.clips && options_.exchange) build_.add(Kind::wait, summed_[bucket]);
      build_.update(bucket, options_.averages);
    }
  }

  const std::vector<std::size_t> ready_;
  const std::size_t nodes_;  ///< before those that change buffers
  const std::size_t end_;
  const ScheduleOptions options_;
  Builder build_;
  std::vector<std::size_t> summed_;  ///< events of the buckets that are exchanged, in their order
};

/// Exchange and updates are enqueued on the exchange stream, whose order puts an update behind its sum.
Schedule schedule_on_streams(const model::Graph& graph, const ArenaPlan& arena,
                             const ScheduleOptions& options) {
  const std::vector<std::size_t> ready = bucket_ready_nodes(graph, arena);
  const std::vector<std::size_t> last_reader = bucket_last_readers(graph, arena);
  const std::size_t buckets = ready.size();
  const std::size_t nodes = nodes_before_updates(graph);
  Builder build(graph, options);
  std::size_t exchanged = 0;
  std::size_t updated = 0;
  for (std::size_t node = 0; node < nodes; ++node) {
    build.launch(node);
    const bool is_last = node + 1 == nodes;
    if (!options.overlap && !is_last) continue;
    for (; exchanged < buckets && (is_last || ready[exchanged] <= node); ++exchanged) {
      build.order(compute, exchange, gradients_ready(exchanged));
      build.add(Kind::all_reduce, exchanged, exchange);
    }
    for (; !options.clips && updated < exchanged && last_reader[updated] <= node; ++updated) {
      build.order(compute, exchange, fmt::format("parameters {} free", updated));
      build.update(updated, options.averages, exchange);
    }
  }
  if (options.clips) {
    build.order(compute, exchange, "backward done");  // the norm writes step state, which backward reads
    build.add(Kind::clip, 0, exchange);
  }
  for (std::size_t node = nodes; node < graph.nodes().size(); ++node) {
    build.add(Kind::launch, node, options.clips ? exchange : compute);
  }
  for (; updated < buckets; ++updated) build.update(updated, options.averages, exchange);
  build.order(exchange, compute, "step exchanged");
  return build.end();
}

}  // namespace

Schedule schedule_nodes(const model::Graph& graph, const ScheduleOptions& options) {
  Builder build(graph, options);
  for (std::size_t node = 0; node < graph.nodes().size(); ++node) build.launch(node);
  return build.end();
}

Schedule schedule_training(const model::Graph& graph, const ArenaPlan& arena,
                           const ScheduleOptions& options) {
  if (options.exchange && options.stream_ordered) return schedule_on_streams(graph, arena, options);
  return ThreadSchedule(graph, arena, options).make();
}

}  // namespace lockstep::runtime
