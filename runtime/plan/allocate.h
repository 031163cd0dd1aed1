#pragma once

#include <cstddef>
#include <vector>

#include "model/graph.h"

namespace lockstep::runtime {

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
