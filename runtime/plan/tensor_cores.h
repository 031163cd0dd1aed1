#pragma once

#include <string>
#include <vector>

#include "model/graph.h"

namespace lockstep::runtime {

/// Dimensions of linear layers and convolutions along which tensor cores cannot read whole words of 16 bytes
/// (four TF32 factors), each with the nearest one above where they can: "conv1: 3 input channels (4 is
/// faster)". Source: NVIDIA, Deep Learning Performance, Matrix Multiplication Background, "Tensor Core
/// Requirements".
std::vector<std::string> tensor_core_misses(const model::Graph& graph);

}  // namespace lockstep::runtime
