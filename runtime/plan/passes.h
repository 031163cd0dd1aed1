#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "model/graph.h"

namespace lockstep::runtime {

/// The passes that rewrite the graph, each in the file of its name; those that place it in memory and time
/// have headers of their own (algorithms.h, bucket.h, launches.h, schedule.h).

/// Reverse mode: appends the backward nodes and sets every parameter's gradient. Fixes the order in which
/// gradients become ready; a parameter used twice is ready at its last contribution.
/// UsageError names every parameter that the loss does not depend on; with `allow_unused` their gradients are
/// zeros, which come last.
void differentiate(model::Graph& graph, bool allow_unused = false);

/// Rewrites the differentiated (or evaluation) graph where one kernel can do the work of several:
/// linear or convolution with relu; max-pool backward with relu backward; flatten into the linear layer
/// behind it, whose weights are then seen as (O, C, H, W); chains of pointwise ops. The results have the same
/// bits.
void fuse(model::Graph& graph);

/// The last part of `fuse`: joins chains of pointwise nodes of one phase, so that intermediate values stay in
/// the cache or in registers. The joined node takes the position and the id of its last part, so no id is new
/// and its inputs exist there. Results of the earlier parts that other nodes read become further outputs.
void fuse_pointwise(model::Graph& graph);

/// Layouts of parameters by name: fixed by the first plan of a run, binding for all others, since parameters,
/// gradients and optimizer state lie in memory once.
using ParameterLayouts = std::map<std::string, kernels::Layout>;

/// Fixes the layout of every value, node by node in order: a kernel chooses layouts of values that have none
/// yet, and a reorder node precedes a kernel that needs another layout than a value has. Inputs and targets
/// are row-major; a parameter takes the layout that its first reader in forward chooses, and its gradient the
/// same. `pinned` parameters keep their layouts.
void assign_layouts(model::Graph& graph, const kernels::Device& device, const ParameterLayouts& pinned);

ParameterLayouts parameter_layouts(const model::Graph& graph);

/// Offsets of the activations in their arena, by value id; `not_here` for values in other memory (inputs,
/// parameters, gradients, step state) or in none.
struct ActivationPlan {
  static constexpr std::size_t not_here = static_cast<std::size_t>(-1);
  std::vector<std::size_t> offsets;
  std::size_t bytes = 0;

  /// For views and overwritten inputs: the value whose memory this one shares, itself otherwise.
  std::vector<model::ValueId> storage;
};

/// Liveness to offsets: values whose lifetimes do not overlap share memory; views and outputs that may
/// overwrite their input use its memory. First fit, largest first; offsets are multiples of 64.
ActivationPlan allocate_activations(const model::Graph& graph);

}  // namespace lockstep::runtime
