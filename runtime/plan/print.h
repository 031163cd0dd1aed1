#pragma once

#include <string>

#include "runtime/plan/plan.h"

namespace lockstep::runtime {

/// A plan for people: every step with its stream, launches with shapes, layouts and FLOPs, the buckets,
/// the memory.
std::string to_text(const Plan& plan, const MemoryNeed& need);

/// What a step does, in a few words: "conv1 conv2d", "update of bucket 0 (fc1.weight)".
std::string label_of(const Plan& plan, const Step& step);

/// The plan's warnings in one line; empty if there are none.
std::string warning_of(const Plan& plan);
/// The same for choices of `--benchmark` that are not offered.
std::string fallback_warning_of(const Plan& plan);

}  // namespace lockstep::runtime
