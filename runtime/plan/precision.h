#pragma once

#include "model/graph.h"

namespace lockstep::runtime {

/// `--matmul-precision`: every matrix product and convolution of the graph, forward and backward, may take
/// its factors as exactly as `precision` says.
void set_matmul_precision(model::Graph& graph, kernels::MatmulPrecision precision);

}  // namespace lockstep::runtime
