#include "runtime/plan/schedule.h"

#include <algorithm>

#include <fmt/format.h>

#include "runtime/plan/schedule_builder.h"

namespace lockstep::runtime {
namespace {

using Kind = Step::Kind;
constexpr StreamName compute = StreamName::compute;
constexpr StreamName exchange = StreamName::exchange;
constexpr StreamName update = StreamName::update;

/// Whose update waits for it.
std::size_t bucket_of(const ArenaPlan& arena, const PlannedExchange& planned) {
  return planned.is_rows() ? arena.rows[planned.index].bucket : planned.index;
}

/// Without an exchange, or with one that occupies a thread: the exchange queue's while compute continues,
/// else the walking thread. All updates come at the end.
class ThreadSchedule {
 public:
  ThreadSchedule(const model::Graph& graph, const ArenaPlan& arena, const ScheduleOptions& options)
      : arena_(arena),
        exchanges_(options.exchange ? exchanges_of(graph, arena) : std::vector<PlannedExchange>()),
        nodes_(nodes_before_updates(graph)),
        end_(graph.nodes().size()),
        options_(options),
        build_(graph, arena, options) {}

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
      const PlannedExchange& next = exchanges_[done_.size()];
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
      const PlannedExchange& next = exchanges_[done_.size()];
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
        if (bucket_of(arena_, exchanges_[at]) == bucket) finish(at);
      }
      build_.update(bucket, options_.averages);
    }
  }

  /// From here on the gradients hold its result.
  void finish(std::size_t at) {
    build_.add(Kind::wait, done_[at]);
    if (exchanges_[at].is_rows()) build_.add(Kind::add_rows, exchanges_[at].index);
  }

  const ArenaPlan& arena_;
  const std::vector<PlannedExchange> exchanges_;
  const std::size_t nodes_;  ///< before those that change buffers
  const std::size_t end_;
  const ScheduleOptions options_;
  ScheduleBuilder build_;
  std::vector<std::size_t> done_;  ///< events of the first of `exchanges_`
};

/// By bucket: how many of `exchanges`, from the first on, it takes until its gradients are complete.
std::vector<std::size_t> exchanges_to_complete(const ArenaPlan& arena,
                                               const std::vector<PlannedExchange>& exchanges) {
  std::vector<std::size_t> count(arena.buckets.size(), 0);
  for (std::size_t at = 0; at < exchanges.size(); ++at) count[bucket_of(arena, exchanges[at])] = at + 1;
  return count;
}

/// Exchanges are enqueued on one stream, and on another what follows of their results: the updates.
Schedule schedule_on_streams(const model::Graph& graph, const ArenaPlan& arena,
                             const ScheduleOptions& options) {
  const std::vector<PlannedExchange> exchanges = exchanges_of(graph, arena);
  const std::vector<std::size_t> last_reader = bucket_last_readers(graph, arena);
  const std::vector<std::size_t> complete_after = exchanges_to_complete(arena, exchanges);
  const std::size_t buckets = arena.buckets.size();
  const std::size_t nodes = nodes_before_updates(graph);
  ScheduleBuilder build(graph, arena, options);
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
      const PlannedExchange& next = exchanges[exchanged];
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
  build.await_exchange(update, "step exchanged");
  return build.end();
}

}  // namespace

Schedule schedule_nodes(const model::Graph& graph, const ArenaPlan& arena, const ScheduleOptions& options) {
  ScheduleBuilder build(graph, arena, options);
  for (std::size_t node = 0; node < graph.nodes().size(); ++node) build.launch(node);
  return build.end();
}

Schedule schedule_training(const model::Graph& graph, const ArenaPlan& arena,
                           const ScheduleOptions& options) {
  if (options.exchange && options.stream_ordered) return schedule_on_streams(graph, arena, options);
  return ThreadSchedule(graph, arena, options).make();
}

}  // namespace lockstep::runtime
