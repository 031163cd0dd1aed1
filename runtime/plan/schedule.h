#pragma once

#include <vector>

#include "model/graph.h"
#include "runtime/plan/bucket.h"

namespace lockstep::runtime {

/// One entry of a plan. `launch` runs node `index`; `exchange` hands bucket `index` to the communication
/// stream; `exchange_now` sums it on the compute stream itself, when no compute is left to hide it; `update`
/// waits for the sum of bucket `index` and applies the optimizer to it, on the communication stream when that
/// is a device's; `clip` computes the norm of all gradients when all buckets are summed, and the factor that
/// the updates behind it take (it has no index).
struct Step {
  enum class Kind { launch, exchange, exchange_now, clip, update };
  Kind kind;
  std::size_t index;
  bool operator==(const Step&) const = default;
};

struct ScheduleOptions {
  bool exchange = true;  ///< more than one rank
  bool overlap = true;
  bool clips = false;  ///< updates wait for the norm of all gradients
  bool on_streams =
      false;  ///< the communication stream is a device's: nothing that it does occupies a thread
};

/// Evaluation: the nodes in order, no exchange and no update.
std::vector<Step> schedule_forward(const model::Graph& graph);

/// Training. A bucket is exchanged as soon as its last gradient is there; buckets are exchanged in order on
/// every rank. No kernel of this step reads an updated parameter: updates come last, or, on streams, behind
/// the exchange and the last kernel that reads one of the bucket's parameters, so that they overlap backward
/// too. With clipping all updates wait for all exchanges.
std::vector<Step> schedule_training(const model::Graph& graph, const ArenaPlan& arena,
                                    const ScheduleOptions& options);

}  // namespace lockstep::runtime
