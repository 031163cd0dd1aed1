#pragma once

#include "model/graph.h"

namespace lockstep::runtime {

/// Reverse mode: appends the backward nodes and sets every parameter's gradient. Fixes the order in which
/// gradients become ready; a parameter used twice is ready at its last contribution.
/// UsageError names a parameter that the loss does not depend on.
void differentiate(model::Graph& graph);

}  // namespace lockstep::runtime
