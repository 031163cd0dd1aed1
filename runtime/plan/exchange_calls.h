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

/// What the order follows of an exchange that may be held back.
struct HeldExchange {
  double backward_done = 0;   ///< what share of backward's work is, when it is ready
  double relative_bytes = 1;  ///< to the mean of a step's exchanges
  bool operator==(const HeldExchange&) const = default;
};

struct PlannedCall {
  ExchangeCall call;
  HeldExchange held{};  ///< where it may be held
};

/// In the order in which `graph` makes them ready; where that is the same node, buckets come first. `holds`:
/// a step may hold some back.
std::vector<PlannedCall> order_exchanges(const model::Graph& graph, const ArenaPlan& arena, bool holds);

}  // namespace lockstep::runtime
