#pragma once

#include "model/graph.h"

namespace lockstep::runtime {

/// Reverse mode: appends the backward nodes and sets every parameter's gradient. Fixes the order in which
/// gradients become ready; a parameter used twice is ready at its last contribution.
/// UsageError names every parameter that the loss does not depend on; with `allow_unused` their gradients are
/// zeros, which come last.
void differentiate(model::Graph& graph, bool allow_unused = false);

}  // namespace lockstep::runtime
