#pragma once

#include <cstddef>
#include <vector>

#include "model/graph.h"

namespace lockstep::runtime {

/// Where the activations lie in the activation arena. By value id; `not_here` for values that live elsewhere
/// (inputs, parameters, gradients, step state) or nowhere.
struct ActivationPlan {
  static constexpr std::size_t not_here = static_cast<std::size_t>(-1);
  std::vector<std::size_t> offsets;
  std::size_t bytes = 0;

  /// For views and overwritten inputs: the value whose memory this one shares, itself otherwise.
  std::vector<model::ValueId> storage;
};

/// Liveness to offsets: values whose lifetimes do not overlap share memory; views and outputs that may
/// overwrite their input take its place. First fit, largest first; offsets are multiples of 64.
ActivationPlan allocate_activations(const model::Graph& graph);

}  // namespace lockstep::runtime
