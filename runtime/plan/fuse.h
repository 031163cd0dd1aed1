#pragma once

#include "model/graph.h"

namespace lockstep::runtime {

/// Rewrites the differentiated (or evaluation) graph where one kernel can do the work of several:
/// linear or convolution with relu; max-pool backward with relu backward; flatten into the linear layer
/// behind it, whose weights are then seen as (O, C, H, W); chains of pointwise ops. Results are the same
/// numbers.
void fuse(model::Graph& graph);

}  // namespace lockstep::runtime
