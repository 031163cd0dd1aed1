#pragma once

#include <map>
#include <string>

#include "kernels/device.h"
#include "model/graph.h"

namespace lockstep::runtime {

/// Layouts of parameters by name: settled by the first plan of a run, binding for all others, since
/// parameters, gradients and optimizer state lie in memory once.
using ParameterLayouts = std::map<std::string, kernels::Layout>;

/// Settles the layout of every value, node by node in order: a kernel chooses for what is still free, and
/// where it insists on another layout than a value has, a reorder node is put before it. Inputs and targets
/// are row-major; a parameter takes the layout that its first reader in forward chooses, and its gradient the
/// same.
void assign_layouts(model::Graph& graph, const kernels::Device& device, const ParameterLayouts& pinned);

ParameterLayouts parameter_layouts(const model::Graph& graph);

}  // namespace lockstep::runtime
