// The steps whose updates come in the next step's forward: `schedule_deferring`.
#include <algorithm>

#include "runtime/plan/schedule.h"
#include "runtime/plan/schedule_builder.h"

namespace lockstep::runtime {
namespace {

using Kind = Step::Kind;

class DeferringSchedule {
 public:
  DeferringSchedule(const model::Graph& graph, const ArenaPlan& arena, const ScheduleOptions& options)
      : graph_(graph),
        arena_(arena),
        averages_(options.averages),
        exchanges_(exchanges_of(graph, arena)),
        first_reader_(bucket_first_readers(graph, arena)),
        build_(graph, arena, options) {}

  Schedule make(MicroBatchRole role) {
    const auto& nodes = graph_.nodes();
    const auto is_backward = [](const model::Node& node) { return node.phase == model::Phase::backward; };
    const auto backward = static_cast<std::size_t>(std::ranges::find_if(nodes, is_backward) - nodes.begin());
    for (std::size_t node = 0; node < nodes.size(); ++node) {
      if (begins_step(role)) complete_buckets(node, node == backward);
      build_.launch(node);
      if (ends_step(role)) queue_ready(node);
    }
    if (ends_step(role)) end_step();
    return build_.end();
  }

 private:
  /// Those whose parameters `node` is the first to read, or all that are left.
  void complete_buckets(std::size_t node, bool all) {
    for (std::size_t bucket = 0; bucket < first_reader_.size(); ++bucket) {
      const bool is_left = first_reader_[bucket] >= node;
      if (first_reader_[bucket] == node || (all && is_left)) complete(bucket);
    }
  }

  void complete(std::size_t bucket) {
    if (bucket < exchanged_buckets(arena_)) build_.defer(Kind::await_bucket, bucket);
    for (std::size_t slice = 0; slice < arena_.rows.size(); ++slice) {
      if (arena_.rows[slice].bucket != bucket) continue;
      build_.defer(Kind::await_rows, slice);
      build_.defer(Kind::add_rows, slice);
    }
    build_.defer(Kind::update, bucket);
    if (averages_) build_.defer(Kind::average, bucket);
  }

  /// Rows are of embeddings, which a forward begins with.
  void queue_ready(std::size_t node) {
    for (; queued_ < exchanges_.size() && exchanges_[queued_].ready <= node; ++queued_) {
      const PlannedExchange& next = exchanges_[queued_];
      const bool may_be_held = !next.is_rows() && !arena_.buckets[next.index].with_control;
      may_be_held ? build_.offer(next.kind, next.index, next.held) : build_.queue(next.kind, next.index);
    }
  }

  void end_step() {
    build_.add(Kind::hand_over_held);
    build_.add(Kind::await_bucket, exchanged_buckets(arena_) - 1);
    build_.add(Kind::keep_state);
  }

  const model::Graph& graph_;
  const ArenaPlan& arena_;
  const bool averages_;
  const std::vector<PlannedExchange> exchanges_;
  const std::vector<std::size_t> first_reader_;
  ScheduleBuilder build_;
  std::size_t queued_ = 0;
};

}  // namespace

bool can_defer(const model::Graph& graph, const ArenaPlan& arena, const ScheduleOptions& options) {
  return options.exchange && options.overlap && !options.clips && graph.statistics().empty() &&
         exchanged_buckets(arena) > 0;
}

Schedule schedule_deferring(const model::Graph& graph, const ArenaPlan& arena, const ScheduleOptions& options,
                            MicroBatchRole role) {
  return DeferringSchedule(graph, arena, options).make(role);
}

}  // namespace lockstep::runtime
