#pragma once

#include "model/graph.h"

namespace lockstep::runtime {

/// Joins chains of pointwise nodes of one phase, so that what one writes and the next reads stays in the
/// cache or in registers. The joined node stands where its last part stood, and has that part's id: its
/// outputs are the ones that existed there, and no id is new. What others read of the earlier parts are
/// outputs too.
void fuse_pointwise(model::Graph& graph);

}  // namespace lockstep::runtime
