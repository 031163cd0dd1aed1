#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/graph.h"
#include "runtime/plan/bucket.h"
#include "runtime/plan/plan_key.h"

namespace lockstep::runtime {

/// The in-order queues of a replica's device. `update` only where exchanges are stream-ordered: the exchange
/// of a bucket does not wait for the updates of those before.
enum class StreamName : std::uint8_t { compute, exchange, update };
inline constexpr std::size_t stream_count = 3;

/// One entry of a step's program. The thread that walks the plan enqueues it on `stream`, or does it itself.
struct Step {
  enum class Kind : std::uint8_t {
    begin_step,          ///< launches the kernel that sets step state and control block from the host's input
    launch,              ///< the kernel of node `index`
    record,              ///< event `index`
    wait,                ///< for event `index`: later work on this stream starts after it
    all_reduce,          ///< of bucket `index`, behind compute
    all_reduce_inline,   ///< of bucket `index`, when no compute is left to hide it
    gather_parameters,   ///< of bucket `index`: each rank's shard to all, behind its update
    sum_statistics,      ///< `index` over all ranks, for which compute waits
    gather_rows,         ///< lists of rows of slice `index`, from all ranks to all, behind compute
    gather_rows_inline,  ///< the same when no compute is left to hide it
    add_rows,            ///< launches the sum of the lists of slice `index`, which completes a gradient
    await_compute,       ///< the walking thread waits until the device has computed what it was given
    join,                ///< the walking thread waits until the exchange queue is empty
    hand_over_held,      ///< what the walking thread has held back goes to the exchange queue
    await_bucket,        ///< the walking thread waits until bucket `index` is summed
    await_rows,          ///< the same of the lists of rows of slice `index`
    keep_state,          ///< copies the step's state, for the updates that it leaves to the next step
    clip,                ///< launches the norm of all gradients, and the factor that the updates take
    update,              ///< launches the optimizer on bucket `index`
    average,             ///< launches the average of the weights of bucket `index`, behind its update
    end_step,            ///< launches the kernel that gives the host the control block
  };
  Kind kind = Kind::launch;
  StreamName stream = StreamName::compute;
  std::size_t index = 0;
  /// Handed to the exchange queue, whose thread runs such steps in order: the exchange stream of a
  /// communicator that works on the calling thread.
  bool queued = false;
  /// The walking thread may hold it back, so that what is ready later but needed sooner goes first.
  std::optional<HeldExchange> held{};
  bool deferred = false;      ///< belongs to the step before; left out where that has left nothing
  bool for_exchange = false;  ///< a wait of compute's: what it takes is the exchange's cost
  bool operator==(const Step&) const = default;
};

/// A step's program in launch order; the same on every rank.
struct Schedule {
  std::vector<Step> steps;
  std::vector<std::string> events;  ///< their names
};

/// What decides the order of a step's work, and who does it.
struct ScheduleOptions {
  bool exchange = true;  ///< more than one rank
  bool overlap = true;
  bool clips = false;     ///< updates wait for the norm of all gradients, as with GradScaler, too
  bool averages = false;  ///< of weights
  /// Updates are left to the next step's forward, in which the exchange goes on. Without clipping, and for
  /// exchanges on the exchange queue.
  bool defers = false;
  /// Ranks share memory: each updates its shard of large buckets, whose gradients are then reduce-scattered
  /// only. Not with clipping, which needs all gradients, and not for updates that are deferred.
  bool shards_updates = false;
  /// An all-reduce is enqueued on the exchange stream and occupies no thread.
  bool stream_ordered = false;
  /// The device computes behind the walking thread, which waits for it before it waits for an exchange: so
  /// that the time of the second is that of the exchange alone.
  bool computes_behind = false;
};

/// Evaluation, and a micro-batch before the last of its step: the nodes in order, no exchange of gradients
/// and no update of this step's.
Schedule schedule_nodes(const model::Graph& graph, const ArenaPlan& arena, const ScheduleOptions& options);

/// The last micro-batch of a training step, or the only one. A bucket is exchanged as soon as its last
/// gradient is there; buckets are exchanged in order on every rank. No kernel of this step reads an updated
/// parameter: updates come last, or, where exchanges are stream-ordered, behind the exchange and the last
/// kernel that reads one of the bucket's parameters, so that they overlap backward too. With clipping all
/// updates wait for all exchanges.
///
/// Lists of rows are exchanged as soon as they are written, in one order with the buckets; the updates of
/// what they are added to wait for them, too.
///
/// Statistics are summed behind the node that writes them. Buckets that were ready before are summed first,
/// on every rank: a communicator takes one order of calls, and which bucket is done is not the same
/// everywhere.
Schedule schedule_training(const model::Graph& graph, const ArenaPlan& arena, const ScheduleOptions& options);

/// Whether `options.defers` can be had: not where an update needs all sums, or statistics go between
/// exchanges of gradients.
bool can_defer(const model::Graph& graph, const ArenaPlan& arena, const ScheduleOptions& options);

/// A micro-batch of a step that defers its updates. If it begins the step, those of the step before come
/// each before the first kernel that reads one of the bucket's parameters, and all before backward. If it
/// ends the step, all exchanges are queued, and it is done when the control block is summed: with the last
/// bucket, which goes ahead of those that are held back. So the gradients of the first layers, which are
/// ready last and whose sums are needed first, overtake others, and the wire works during forward, too.
Schedule schedule_deferring(const model::Graph& graph, const ArenaPlan& arena, const ScheduleOptions& options,
                            MicroBatchRole role);

}  // namespace lockstep::runtime
