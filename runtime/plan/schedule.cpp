#include "runtime/plan/schedule.h"

#include <algorithm>

#include <fmt/format.h>

namespace lockstep::runtime {
namespace {

using Kind = Step::Kind;
constexpr StreamName compute = StreamName::compute;
constexpr StreamName exchange = StreamName::exchange;
constexpr StreamName update = StreamName::update;

/// A schedule under construction.
class Builder {
 public:
  Builder(const model::Graph& graph, const ScheduleOptions& options)
      : graph_(graph), stream_ordered_(options.stream_ordered) {
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
    add(Kind::end_step);
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

/// What one call of the communicator exchanges.
struct Exchange {
  Step::Kind kind;  ///< all_reduce of bucket `index`, or gather_rows of a slice
  std::size_t index;
  std::size_t ready;  ///< the node behind which it may come

  bool is_rows() const { return kind == Kind::gather_rows; }
  Step::Kind without_compute() const {
    return is_rows() ? Kind::gather_rows_inline : Kind::all_reduce_inline;
  }
  std::string ready_event() const {
    return fmt::format("{} {} ready", is_rows() ? "rows" : "gradients", index);
  }
  std::string done_event() const {
    return is_rows() ? fmt::format("rows {} here", index) : fmt::format("bucket {} summed", index);
  }
};

/// In the order in which they become ready; where that is the same node, buckets come first.
std::vector<Exchange> exchanges_of(const model::Graph& graph, const ArenaPlan& arena) {
  std::vector<Exchange> exchanges;
  const std::vector<std::size_t> buckets = bucket_ready_nodes(graph, arena);
  for (std::size_t index = 0; index < exchanged_buckets(arena); ++index)
    exchanges.push_back({Kind::all_reduce, index, buckets[index]});
  const std::vector<std::size_t> rows = rows_ready_nodes(graph, arena);
  for (std::size_t index = 0; index < rows.size(); ++index)
    exchanges.push_back({Kind::gather_rows, index, rows[index]});
  std::ranges::stable_sort(exchanges, {}, &Exchange::ready);
  return exchanges;
}

/// Without an exchange, or with one that occupies a thread: the exchange queue's while compute continues,
/// else the walking thread. All updates come at the end.
class ThreadSchedule {
 public:
  ThreadSchedule(const model::Graph& graph, const ArenaPlan& arena, const ScheduleOptions& options)
      : arena_(arena),
        exchanges_(options.exchange ? exchanges_of(graph, arena) : std::vector<Exchange>()),
        nodes_(nodes_before_updates(graph)),
        end_(graph.nodes().size()),
        options_(options),
        build_(graph, options) {}

  Schedule make() {
    for (std::size_t node = 0; node < nodes_; ++node) {
      build_.launch(node);
      if (options_.exchange && options_.overlap) hand_over_ready(node);
    }
    if (options_.exchange) exchange_the_rest();
    update();
    return build_.end();
  }

 private:
  /// The last has no compute behind it.
  void hand_over_ready(std::size_t node) {
    while (done_.size() + 1 < exchanges_.size() && exchanges_[done_.size()].ready <= node &&
           node + 1 < nodes_) {
      const Exchange& next = exchanges_[done_.size()];
      const std::size_t ready = build_.event(next.ready_event());
      done_.push_back(build_.event(next.done_event()));
      build_.add(Kind::record, ready);
      build_.queue(Kind::wait, ready);
      build_.queue(next.kind, next.index);
      build_.queue(Kind::record, done_.back());
    }
  }

  void exchange_the_rest() {
    build_.join();
    while (done_.size() < exchanges_.size()) {
      const Exchange& next = exchanges_[done_.size()];
      build_.order(compute, exchange, next.ready_event());
      build_.add(next.without_compute(), next.index, exchange);
      done_.push_back(build_.event(next.done_event()));
      build_.add(Kind::record, done_.back(), exchange);
    }
  }

  void update() {
    if (options_.clips) {
      for (std::size_t at = 0; at < exchanges_.size(); ++at) finish(at);
      build_.add(Kind::clip);
    }
    for (std::size_t node = nodes_; node < end_; ++node) build_.add(Kind::launch, node);
    for (std::size_t bucket = 0; bucket < arena_.buckets.size(); ++bucket) {
      for (std::size_t at = 0; !options_.clips && at < exchanges_.size(); ++at) {
        if (bucket_of(exchanges_[at]) == bucket) finish(at);
      }
      build_.update(bucket, options_.averages);
    }
  }

  std::size_t bucket_of(const Exchange& of) const {
    return of.is_rows() ? arena_.rows[of.index].bucket : of.index;
  }
  /// From here on the gradients hold its result.
  void finish(std::size_t at) {
    build_.add(Kind::wait, done_[at]);
    if (exchanges_[at].is_rows()) build_.add(Kind::add_rows, exchanges_[at].index);
  }

  const ArenaPlan& arena_;
  const std::vector<Exchange> exchanges_;
  const std::size_t nodes_;  ///< before those that change buffers
  const std::size_t end_;
  const ScheduleOptions options_;
  Builder build_;
  std::vector<std::size_t> done_;  ///< events of the first of `exchanges_`
};

/// By bucket: how many of `exchanges`, from the first on, it takes until its gradients are complete.
std::vector<std::size_t> exchanges_to_complete(const ArenaPlan& arena,
                                               const std::vector<Exchange>& exchanges) {
  std::vector<std::size_t> count(arena.buckets.size(), 0);
  for (std::size_t at = 0; at < exchanges.size(); ++at) {
    const Exchange& of = exchanges[at];
    count[of.is_rows() ? arena.rows[of.index].bucket : of.index] = at + 1;
  }
  return count;
}

/// Exchanges are enqueued on one stream, and on another what follows of their results: the updates.
Schedule schedule_on_streams(const model::Graph& graph, const ArenaPlan& arena,
                             const ScheduleOptions& options) {
  const std::vector<Exchange> exchanges = exchanges_of(graph, arena);
  const std::vector<std::size_t> last_reader = bucket_last_readers(graph, arena);
  const std::vector<std::size_t> complete_after = exchanges_to_complete(arena, exchanges);
  const std::size_t buckets = arena.buckets.size();
  const std::size_t nodes = nodes_before_updates(graph);
  Builder build(graph, options);
  std::size_t exchanged = 0;
  std::vector<std::size_t> done;  // events, by exchange
  std::size_t known = 0;          // exchanges for which the update stream has waited: they end in order
  const auto complete = [&](std::size_t bucket) {
    const std::size_t count = options.overlap ? complete_after[bucket] : exchanges.size();
    if (count > known) build.add(Kind::wait, done[count - 1], update);
    known = std::max(known, count);
    for (std::size_t slice = 0; slice < arena.rows.size(); ++slice) {
      if (arena.rows[slice].bucket == bucket) build.add(Kind::add_rows, slice, update);
    }
  };
  std::vector<bool> is_updated(buckets, false);
  for (std::size_t node = 0; node < nodes; ++node) {
    build.launch(node);
    const bool is_last = node + 1 == nodes;
    if (!options.overlap && !is_last) continue;
    for (; exchanged < exchanges.size() && (is_last || exchanges[exchanged].ready <= node); ++exchanged) {
      const Exchange& next = exchanges[exchanged];
      build.order(compute, exchange, next.ready_event());
      build.add(next.kind, next.index, exchange);
      done.push_back(build.event(next.done_event()));
      build.add(Kind::record, done.back(), exchange);
    }
    for (std::size_t bucket = 0; !options.clips && bucket < buckets; ++bucket) {
      if (is_updated[bucket] || complete_after[bucket] > exchanged || last_reader[bucket] > node) continue;
      complete(bucket);
      build.order(compute, update, fmt::format("parameters {} free", bucket));
      build.update(bucket, options.averages, update);
      is_updated[bucket] = true;
    }
  }
  for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
    if (!is_updated[bucket]) complete(bucket);
  }
  if (options.clips) {
    build.order(compute, update, "backward done");  // the norm writes step state, which backward reads
    build.add(Kind::clip, 0, update);
  }
  for (std::size_t node = nodes; node < graph.nodes().size(); ++node) {
    build.add(Kind::launch, node, options.clips ? update : compute);
  }
  for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
    if (!is_updated[bucket]) build.update(bucket, options.averages, update);
  }
  build.order(update, compute, "step exchanged");
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
