#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "model/graph.h"

namespace lockstep::runtime {

struct ArenaPlan;
struct Launch;

/// Offsets of the activations in their arena, by value id; `not_here` for values in other memory (inputs,
/// parameters, gradients, step state) or in none.
struct ActivationPlan {
  static constexpr std::size_t not_here = static_cast<std::size_t>(-1);
  std::vector<std::size_t> offsets;  ///< of caches in their own arena
  std::vector<bool> is_lent;         ///< the offset is one in the gradient arena, by value id
  std::size_t bytes = 0;
  std::size_t cache_bytes = 0;
  std::vector<std::size_t> workspaces;  ///< by node, in the gradient arena; `not_here`: in the plan's own

  /// For views and overwritten inputs: the value whose memory this one shares, itself otherwise.
  std::vector<model::ValueId> storage;
  std::vector<std::size_t> view_offsets;  ///< bytes from the beginning of that memory, by value id
};

/// Whose gradients the arena holds in forward: none but the step's own, or those of the step before, which
/// are exchanged until backward begins.
enum class GradientArena { own, exchanged };

/// Liveness to offsets: values whose lifetimes do not overlap share memory; views and outputs that may
/// overwrite their input use its memory, and an input that a gradient may overwrite uses the gradient's.
/// Caches come one behind another, in their order. First fit, largest first; offsets are multiples of 64.
ActivationPlan allocate_activations(const model::Graph& graph, GradientArena gradients = GradientArena::own);

/// The same in a step that finds the gradient arena idle: it is until backward writes the gradients, so
/// values and scratch memory of `nodes` lie there where there is room, the last layers' in the first's
/// gradients.
ActivationPlan allocate_activations(const model::Graph& graph, const ArenaPlan& arena,
                                    std::span<const Launch> nodes);

}  // namespace lockstep::runtime
