#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/device.h"
#include "kernels/kernel.h"
#include "model/graph.h"
#include "model/optimizer.h"
#include "runtime/plan/allocate.h"
#include "runtime/plan/bucket.h"
#include "runtime/plan/plan_key.h"

namespace lockstep::runtime {

/// Kinds of memory that kernels work on. Those of a batch slot come first, the last two of these on the host.
enum class Region : std::uint8_t {
  input,
  target,
  states,      ///< before the first step, of recurrent layers
  positions,   ///< of new tokens
  cache_rows,  ///< of earlier ones
  step_input,
  step_result,  ///< the control block, behind the step
  activations,
  workspace,  ///< that launches share; in bytes
  parameters,
  parameter_copies,  ///< in the type that layers compute in
  averages,          ///< of parameters
  buffers,
  gradients,
  idle_gradients,  ///< memory of gradients that are not there yet; in bytes
  gradient_sums,   ///< of micro-batches, in f32
  rows,            ///< lists of all ranks
  own_rows,        ///< this rank's of them
  statistics,      ///< of training: each value summed over all ranks
  optimizer_state,
  caches,  ///< of earlier tokens, and final states; in bytes, as `activations`
  step_state,
  stored,              ///< samples that the device keeps
  kept_state,          ///< of the step before, for the updates that it has left
  control,             ///< of training: summed over all ranks
  evaluation_control,  ///< of this rank alone
};

/// A symbolic address; it is resolved once, when the plan is bound to a replica's memory.
struct Operand {
  Region region = Region::input;
  std::int64_t first =
      0;  ///< elements from the arena's start on; of activations, caches, rows, scratch memory bytes
  std::size_t state = 0;          ///< which of the optimizer's
  std::int64_t of_each_rank = 0;  ///< bytes: this rank's part lies so far behind, times its rank
  std::size_t view_offset = 0;    ///< bytes behind that: of a part of a value
  bool operator==(const Operand&) const = default;
};

/// A prepared kernel and its operands.
struct Launch {
  kernels::KernelPtr kernel;  ///< null for a node that only renames memory
  kernels::KernelIo io;       ///< inputs and outputs, as they were prepared
  std::vector<Operand> operands;
  Operand workspace{.region = Region::workspace};  ///< its scratch memory
};

/// All kernels of a step.
struct Launches {
  Operand output;  ///< of a plan that decodes: what the network gives
  Operand states;  ///< of a plan that returns states: the final ones
  Launch begin_step;
  std::vector<Launch> nodes;     ///< by node of the graph
  Launch clip;                   ///< without a kernel if gradients are neither clipped nor scaled
  std::vector<Launch> add_rows;  ///< by slice of rows; none unless the plan has updates
  std::vector<Launch> updates;   ///< by bucket; none unless training ends a step, or begins one that defers
  std::vector<Launch> averages;  ///< the same; none if weights are not averaged
  Launch end_step;
};

/// Of all tensors.
double bytes_of(const kernels::KernelIo& io);

/// Bytes that a launch reads and writes at least: its tensors, each once. An update also reads parameters and
/// state, but not the copy in a half type.
double moved_bytes(const Launch& launch, bool is_update);

/// Of the kernels beside those of the graph's nodes: begin and end of the step, clipping, updates, averages.
struct LaunchOptions {
  PlanKey key;
  bool clips = false;  ///< as ScheduleOptions::clips, which has the step
  double clip_grad_norm = 0;
  double average_decay = 0;       ///< 0: weights are not averaged; else evaluation reads the averages
  bool scales_gradients = false;  ///< as torch.amp.GradScaler, for fp16
  bool defers_updates = false;    ///< to the next step
  model::OptimizerOptions optimizer;
};

/// The kernels of a graph's nodes, without operands.
std::vector<Launch> prepare_nodes(const model::Graph& graph, const kernels::Device& device);

/// With the kernels of `nodes`.
Launches prepare_launches(const model::Graph& graph, const ArenaPlan& arena,
                          const ActivationPlan& activations, std::vector<Launch> nodes,
                          const LaunchOptions& options, const kernels::Device& device);

}  // namespace lockstep::runtime
