#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "kernels/kernel.h"
#include "kernels/matmul_precision.h"
#include "model/model.h"
#include "model/optimizer.h"
#include "runtime/plan/allocate.h"
#include "runtime/plan/bucket.h"
#include "runtime/plan/layout.h"
#include "runtime/plan/schedule.h"

namespace lockstep::runtime {

enum class Mode { train, evaluate };

/// What `--benchmark` chose, by "layer op": the name of its algorithm. Rank 0 measures, all ranks apply.
using AlgorithmChoices = std::map<std::string, std::string>;

/// What a run decides once, and every plan of it follows.
struct RunDecisions {
  ParameterLayouts parameter_layouts;
  AlgorithmChoices algorithms;
  kernels::MatmulPrecision matmul_precision = kernels::MatmulPrecision::highest;
};

struct PlanRequest {
  Mode mode = Mode::train;
  std::int64_t batch_size = 1;
  BucketLimits buckets;
  ScheduleOptions schedule;
  double clip_grad_norm = 0;  ///< the greatest norm of all gradients; 0: not clipped
};

/// A step, ready to be bound to memory: kernels prepared, memory assigned, order fixed. Plans of one run
/// differ in mode and batch size and share parameters, gradients, optimizer state and the activation arena.
struct Plan {
  PlanRequest request;
  kernels::MatmulPrecision matmul_precision = kernels::MatmulPrecision::highest;
  model::Graph graph;
  std::vector<kernels::KernelPtr> kernels;  ///< by node; null where there is nothing to launch
  kernels::KernelPtr gradient_norm;         ///< null if gradients are not clipped
  ArenaPlan arena;
  ActivationPlan activations;
  std::size_t workspace_bytes = 0;
  std::vector<Step> steps;
  /// "layer op: algorithm" of choices that the device does not offer, so that the library's own is taken.
  std::vector<std::string> choices_not_offered;
  std::vector<std::string> warnings;  ///< what makes the model slower on this device than it need be

  std::size_t input_bytes() const;
  std::size_t target_bytes() const;
};

/// Runs the passes: differentiate, fuse, precision, layout, bucket, allocate, schedule. Deterministic: equal
/// arguments give equal plans on every rank.
Plan make_plan(const model::Model& model, const model::InputSpec& input, const PlanRequest& request,
               const kernels::Device& device, const RunDecisions& decisions);

/// Bytes that a run of these plans needs: arenas, optimizer state, workspace, two batch slots, and for
/// checkpoints the staged copy (`staged_bytes`, set by who asks for them).
struct MemoryNeed {
  std::size_t parameters = 0;
  std::size_t gradients = 0;
  std::size_t optimizer_state = 0;
  std::size_t activations = 0;
  std::size_t workspace = 0;
  std::size_t batch_slots = 0;
  std::size_t checkpoint = 0;

  std::size_t total() const {
    return parameters + gradients + optimizer_state + activations + workspace + batch_slots + checkpoint;
  }
};
MemoryNeed memory_need(std::span<const Plan> plans, const model::OptimizerOptions& optimizer);

inline constexpr std::size_t batch_slot_count = 2;

}  // namespace lockstep::runtime
