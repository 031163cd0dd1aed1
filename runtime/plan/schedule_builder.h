#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "model/graph.h"
#include "runtime/plan/bucket.h"
#include "runtime/plan/schedule.h"

namespace lockstep::runtime {

/// A schedule under construction.
class ScheduleBuilder {
 public:
  ScheduleBuilder(const model::Graph& graph, const ArenaPlan& arena, const ScheduleOptions& options)
      : graph_(graph),
        arena_(arena),
        stream_ordered_(options.stream_ordered),
        computes_behind_(options.computes_behind) {
    add(Step::Kind::begin_step);
  }

  void add(Step::Kind kind, std::size_t index = 0, StreamName stream = StreamName::compute) {
    schedule_.steps.push_back({.kind = kind, .stream = stream, .index = index});
  }
  void queue(Step::Kind kind, std::size_t index) {
    schedule_.steps.push_back({.kind = kind, .stream = StreamName::exchange, .index = index, .queued = true});
    is_queue_empty_ = false;
  }
  /// The walking thread may hold it back.
  void offer(Step::Kind kind, std::size_t index, const HeldExchange& held) {
    queue(kind, index);
    schedule_.steps.back().held = held;
  }
  /// Of the step before.
  void defer(Step::Kind kind, std::size_t index) {
    schedule_.steps.push_back({.kind = kind, .index = index, .deferred = true});
  }
  /// Before the walking thread exchanges: a communicator serves one thread at a time. All exchanges that
  /// follow need what was launched so far, so waiting for it costs nothing.
  void join() {
    if (computes_behind_) add(Step::Kind::await_compute);
    if (!is_queue_empty_) add(Step::Kind::join);
    is_queue_empty_ = true;
  }

  /// With the exchange of the statistics that it writes.
  void launch(std::size_t node, StreamName stream = StreamName::compute);

  void update(std::size_t bucket, bool averages, StreamName stream = StreamName::compute) {
    add(Step::Kind::update, bucket, stream);
    if (arena_.buckets[bucket].shards_update) add(Step::Kind::gather_parameters, bucket, stream);
    if (averages) add(Step::Kind::average, bucket, stream);
  }

  Schedule end() {
    add(Step::Kind::end_step);
    return std::move(schedule_);
  }

  std::size_t event(std::string name) {
    schedule_.events.push_back(std::move(name));
    return schedule_.events.size() - 1;
  }
  /// Work added to `later` from here on starts after the work on `earlier` so far.
  void order(StreamName earlier, StreamName later, std::string event_name) {
    const std::size_t at = event(std::move(event_name));
    add(Step::Kind::record, at, earlier);
    add(Step::Kind::wait, at, later);
  }
  /// The same of compute, behind exchanges on `earlier`.
  void await_exchange(StreamName earlier, std::string event_name) {
    order(earlier, StreamName::compute, std::move(event_name));
    schedule_.steps.back().for_exchange = true;
  }

 private:
  void sum_statistics(model::ValueId id);

  const model::Graph& graph_;
  const ArenaPlan& arena_;
  const bool stream_ordered_;
  const bool computes_behind_;
  Schedule schedule_;
  bool is_queue_empty_ = true;
};

/// What one call of the communicator exchanges.
struct PlannedExchange {
  Step::Kind kind;  ///< all_reduce of bucket `index`, or gather_rows of a slice
  std::size_t index;
  std::size_t ready;  ///< the node behind which it and those before it may come
  HeldExchange held;  ///< as the arena's plan has it

  bool is_rows() const { return kind == Step::Kind::gather_rows; }
  Step::Kind without_compute() const {
    return is_rows() ? Step::Kind::gather_rows_inline : Step::Kind::all_reduce_inline;
  }
  std::string ready_event() const;
  std::string done_event() const;
};

/// In the order of `arena`, which the plan of `graph` may make ready in another.
std::vector<PlannedExchange> exchanges_of(const model::Graph& graph, const ArenaPlan& arena);

/// Nodes behind these change buffers, as updates of parameters change those.
std::size_t nodes_before_updates(const model::Graph& graph);

}  // namespace lockstep::runtime
