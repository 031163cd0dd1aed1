#pragma once

#include <compare>
#include <cstddef>
#include <vector>

#include "model/graph.h"

namespace lockstep::runtime {

struct ArenaPlan;

/// What one call of the communicator exchanges: bucket `index`, or the lists of rows of slice `index`.
struct ExchangeCall {
  bool is_rows = false;
  std::size_t index = 0;
  auto operator<=>(const ExchangeCall&) const = default;
};

struct PlannedCall {
  ExchangeCall call;
  double backward_done = 0;  ///< where it may be held: what share of backward's work is, when this is ready
};

/// In the order in which `graph` makes them ready; where that is the same node, buckets come first. `holds`:
/// a step may hold some back.
std::vector<PlannedCall> order_exchanges(const model::Graph& graph, const ArenaPlan& arena, bool holds);

}  // namespace lockstep::runtime
