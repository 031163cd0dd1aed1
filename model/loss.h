#pragma once

#include "model/graph.h"

namespace lockstep::model {

struct LossOperands {
  ValueId predictions;  ///< (N, K)
  ValueId targets;      ///< a class (N) i64, or values (N, K) f32
  ValueId step_state;
};

/// The last node of forward, which writes the control block, and with `has_gradient` is the start of
/// backward. UsageError when the operands do not fit.
void add_cross_entropy(Graph& graph, const LossOperands& operands, float label_smoothing, bool has_gradient);
void add_mean_squared_error(Graph& graph, const LossOperands& operands, bool has_gradient);

}  // namespace lockstep::model
