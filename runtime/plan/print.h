#pragma once

#include <span>
#include <string>
#include <vector>

#include "model/graph.h"
#include "runtime/plan/plan.h"

namespace lockstep::runtime {

/// Floating-point operations of all nodes.
double flops_of(const model::Graph& graph);

/// A plan as text: every step with its stream, launches with shapes, layouts and FLOPs, the buckets,
/// the memory. `notes`: what stands behind each step; may be left out.
std::string to_text(const Plan& plan, const MemoryNeed& need, std::span<const std::string> notes = {});

/// Short label of a step: "conv1 conv2d", "update of bucket 0 (fc1.weight)".
std::string label_of(const Plan& plan, const Step& step);

/// The plan's warnings in one line; empty if there are none.
std::string warning_of(const Plan& plan);
/// The same for selected algorithms that the device does not offer.
std::string fallback_warning_of(const Plan& plan);

/// Dimensions of linear layers and convolutions along which tensor cores cannot read whole words of 16 bytes
/// (eight factors of a half type, four of TF32), each with the nearest one above where they can: "conv1: 3
/// input channels (4 is faster)". Not those that have room up to there in memory, nor those of IEEE f32.
/// Source: NVIDIA, Deep Learning Performance,
/// Matrix Multiplication Background, "Tensor Core Requirements".
std::vector<std::string> tensor_core_misses(const model::Graph& graph);

}  // namespace lockstep::runtime
