#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "kernels/kernel.h"
#include "kernels/matmul.h"
#include "model/model.h"
#include "model/optimizer.h"
#include "runtime/plan/algorithms.h"
#include "runtime/plan/allocate.h"
#include "runtime/plan/bucket.h"
#include "runtime/plan/launches.h"
#include "runtime/plan/passes/passes.h"
#include "runtime/plan/plan_key.h"
#include "runtime/plan/schedule.h"

namespace lockstep::runtime {

/// What a run fixes once for all of its plans.
struct PlanConstraints {
  ParameterLayouts parameter_layouts;
  SelectedAlgorithms algorithms;
  kernels::MatmulPrecision matmul_precision = kernels::MatmulPrecision::highest;
  std::optional<kernels::MatmulPrecision> conv_precision{};  ///< none: the device's default
  DType compute_dtype = DType::f32;   ///< of convolutions and linear maps: mixed precision if not f32
  DType gradient_dtype = DType::f32;  ///< as parameters' gradients are exchanged; f32 or bf16
  std::vector<std::string> freeze{};  ///< patterns of names of parameters that are not learned
  bool allow_unused = false;          ///< parameters that do not reach the loss get gradients of zero
  bool recompute = false;             ///< activations of the model's segments
  bool sync_batch_norm = false;       ///< where a step exchanges: statistics of all ranks' samples
  EmbeddingExchange embedding_exchange = EmbeddingExchange::automatic;
  std::optional<ArenaPlan> arena;  ///< of the run's first plan; none: this is the first
};

/// What one plan is asked for; plans of a run may differ in it, as they do not in PlanConstraints.
struct PlanRequest {
  PlanKey key;
  std::int64_t micro_batches = 1;  ///< of a full step
  BucketLimits buckets;
  ScheduleOptions schedule;
  double clip_grad_norm = 0;        ///< the greatest norm of all gradients; 0: not clipped
  std::int64_t cache_capacity = 0;  ///< tokens of a row, where sequences are extended
  bool branches = false;            ///< and rows share what they have in common
  double average_decay = 0;         ///< of the moving average of weights, which evaluation takes; 0: none
  model::OptimizerOptions optimizer;
  bool keeps_outputs = false;   ///< of evaluation: what the network gives can be read behind it
  bool returns_states = false;  ///< and of a recurrent network the final states
};

/// A step, ready to be bound to memory: kernels prepared, memory assigned, order fixed. Plans of one run
/// differ in their keys and share parameters, gradients, optimizer state and the activation arena.
struct Plan {
  PlanRequest request;
  kernels::MatmulPrecision matmul_precision = kernels::MatmulPrecision::highest;
  kernels::MatmulPrecision conv_precision = kernels::MatmulPrecision::highest;
  DType compute_dtype = DType::f32;
  EmbeddingExchange embedding_exchange = EmbeddingExchange::automatic;
  model::Graph graph;
  ArenaPlan arena;
  ActivationPlan activations;
  Launches launches;
  std::vector<Step> steps;
  std::vector<std::string> events;  ///< that steps record and wait for, by index
  std::size_t workspace_bytes = 0;  ///< of all launches
  /// "layer op: algorithm" of selected algorithms that the device does not offer; the library's own are used.
  std::vector<std::string> unavailable_algorithms;
  std::vector<std::string> warnings;  ///< properties of the model that make it slower on this device

  const PlanKey& key() const { return request.key; }
  /// The kernel launch of a step; null for the other kinds of steps.
  const Launch* launch_of(const Step& step) const;
  /// Of the arena in which micro-batches add up their gradients before these are rounded; 0 without.
  std::size_t gradient_sum_bytes() const;
  /// Of the one value with this role; 0 without.
  std::size_t bytes_of(model::Role role) const;
};

/// Runs the passes in the order that runtime/plan/README.md tells. Deterministic: equal arguments give equal
/// plans on every rank.
Plan make_plan(const model::Model& model, const model::InputSpec& input, const PlanRequest& request,
               const kernels::Device& device, const PlanConstraints& constraints);

/// Assigns each launch its part of the plan's workspace and returns the total size: launches on one stream
/// share a part, since they run one after another. Those whose scratch memory lies elsewhere keep it.
std::size_t assign_workspace(Launches& launches, std::span<const Step> steps);

/// Of the arena that these plans share: the most that one of them needs.
std::size_t gradient_sum_bytes(std::span<const Plan> plans);

/// Bytes that a run of these plans needs: arenas, workspace, two batch slots, step state, and for checkpoints
/// the staged copy (`staged_bytes`, set by the caller).
struct MemoryNeed {
  std::size_t parameters = 0;
  std::size_t parameter_copies = 0;  ///< in the type that layers compute in
  std::size_t gradients = 0;  ///< with the sums of micro-batches, where these are apart, and lists of rows
  std::size_t optimizer_state = 0;
  std::size_t averages = 0;  ///< of parameters
  std::size_t caches = 0;
  std::size_t activations = 0;  ///< where between steps parameters are brought into the layout of files, too
  std::size_t workspace = 0;
  std::size_t batch_slots = 0;
  std::size_t stored = 0;      ///< samples that the device keeps
  std::size_t step_state = 0;  ///< with the control blocks and statistics of all ranks
  std::size_t checkpoint = 0;
  std::size_t pinned = 0;  ///< on the host, beside all that: batches that are loaded ahead; set by the caller

  std::size_t total() const {
    return parameters + parameter_copies + gradients + optimizer_state + averages + caches + activations +
           workspace + batch_slots + stored + step_state + checkpoint;
  }
};
/// The first plan is the one that laid out the arenas; gradients and optimizer state are of training plans.
MemoryNeed memory_need(std::span<const Plan> plans);

/// Bytes of the staged copy for a checkpoint: a plan's parameters, buffers and optimizer state as in files.
std::size_t staged_bytes(const Plan& plan);

inline constexpr std::size_t batch_slot_count = 2;

}  // namespace lockstep::runtime
