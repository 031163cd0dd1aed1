#include "runtime/plan/schedule.h"

#include <fmt/format.h>

namespace lockstep::runtime {
namespace {

using Kind = Step::Kind;
constexpr StreamName compute = StreamName::compute;
constexpr StreamName exchange = StreamName::exchange;

/// A schedule under construction.
class Builder {
 public:
  void add(Kind kind, std::size_t index = 0, StreamName stream = compute) {
    schedule_.steps.push_back({.kind = kind, .stream = stream, .index = index});
  }
  void queue(Kind kind, std::size_t index) {
    schedule_.steps.push_back({.kind = kind, .stream = exchange, .index = index, .queued = true});
  }

  void begin() {
    add(Kind::copy_in);
    add(Kind::begin_step);
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
  Schedule schedule_;
};

std::string gradients_ready(std::size_t bucket) {
  return fmt::format("gradients {} ready", bucket);
}

/// Without an exchange, or with one that occupies a thread: the exchange queue's while compute continues,
/// else the walking thread. All updates come at the end.
class ThreadSchedule {
 public:
  ThreadSchedule(const model::Graph& graph, const ArenaPlan& arena, const ScheduleOptions& options)
      : ready_(bucket_ready_nodes(graph, arena)), nodes_(graph.nodes().size()), options_(options) {}

  Schedule make() {
    build_.begin();
    for (std::size_t node = 0; node < nodes_; ++node) {
      build_.add(Kind::launch, node);
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

  /// A communicator serves one thread at a time.
  void sum_the_rest() {
    if (!summed_.empty()) build_.add(Kind::join);
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
    for (std::size_t bucket = 0; bucket < ready_.size(); ++bucket) {
      if (!options_.clips && options_.exchange) build_.add(Kind::wait, summed_[bucket]);
      build_.add(Kind::update, bucket);
    }
  }

  const std::vector<std::size_t> ready_;
  const std::size_t nodes_;
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
  const std::size_t nodes = graph.nodes().size();
  Builder build;
  build.begin();
  std::size_t exchanged = 0;
  std::size_t updated = 0;
  for (std::size_t node = 0; node < nodes; ++node) {
    build.add(Kind::launch, node);
    const bool is_last = node + 1 == nodes;
    if (!options.overlap && !is_last) continue;
    for (; exchanged < buckets && (is_last || ready[exchanged] <= node); ++exchanged) {
      build.order(compute, exchange, gradients_ready(exchanged));
      build.add(Kind::all_reduce, exchanged, exchange);
    }
    for (; !options.clips && updated < exchanged && last_reader[updated] <= node; ++updated) {
      build.order(compute, exchange, fmt::format("parameters {} free", updated));
      build.add(Kind::update, updated, exchange);
    }
  }
  if (options.clips) {
    build.order(compute, exchange, "backward done");  // the norm writes step state, which backward reads
    build.add(Kind::clip, 0, exchange);
  }
  for (; updated < buckets; ++updated) build.add(Kind::update, updated, exchange);
  build.order(exchange, compute, "step exchanged");
  return build.end();
}

}  // namespace

Schedule schedule_forward(const model::Graph& graph) {
  Builder build;
  build.begin();
  for (std::size_t node = 0; node < graph.nodes().size(); ++node) build.add(Kind::launch, node);
  return build.end();
}

Schedule schedule_training(const model::Graph& graph, const ArenaPlan& arena,
                           const ScheduleOptions& options) {
  if (options.exchange && options.stream_ordered) return schedule_on_streams(graph, arena, options);
  return ThreadSchedule(graph, arena, options).make();
}

}  // namespace lockstep::runtime
