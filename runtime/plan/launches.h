#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/device.h"
#include "kernels/kernel.h"
#include "model/graph.h"
#include "model/optimizer.h"
#include "runtime/plan/bucket.h"
#include "runtime/plan/passes.h"

namespace lockstep::runtime {

/// Kinds of memory that kernels work on. Those of a batch slot come first.
enum class Region : std::uint8_t {
  input,
  target,
  activations,
  parameters,
  buffers,
  gradients,
  optimizer_state,
  step_input,
  step_state,
  control,             ///< of training: summed over all ranks
  evaluation_control,  ///< of this rank alone
};

/// A symbolic address; it is resolved once, when the plan is bound to a replica's memory.
struct Operand {
  Region region = Region::input;
  std::int64_t first = 0;  ///< elements from the arena's start on; of `activations` bytes
  std::size_t state = 0;   ///< which of the optimizer's
  bool operator==(const Operand&) const = default;
};

/// A prepared kernel and its operands.
struct Launch {
  kernels::KernelPtr kernel;  ///< null for a node that only renames memory
  kernels::KernelIo io;       ///< inputs and outputs, as they were prepared
  std::vector<Operand> operands;
  std::size_t workspace = 0;  ///< offset of its scratch memory in the plan's workspace
};

/// All kernels of a step, and the operands of the copies before the first and after the last of them.
struct Launches {
  Operand input;    ///< written by copy_in
  Operand control;  ///< read by copy_back
  Launch begin_step;
  std::vector<Launch> nodes;    ///< by node of the graph
  Launch clip;                  ///< without a kernel if gradients are not clipped
  std::vector<Launch> updates;  ///< by bucket; none in evaluation
};

struct LaunchOptions {
  bool training = true;
  double clip_grad_norm = 0;
  model::OptimizerOptions optimizer;
};

Launches prepare_launches(const model::Graph& graph, const ArenaPlan& arena,
                          const ActivationPlan& activations, const LaunchOptions& options,
                          const kernels::Device& device);

}  // namespace lockstep::runtime
