#pragma once

#include <string>

#include "runtime/plan/plan.h"

namespace lockstep::runtime {

/// A plan for people: every launch with its shapes, layouts and FLOPs, the buckets, the memory.
std::string to_text(const Plan& plan, const MemoryNeed& need);

/// The plan's warnings in one line; empty if there are none.
std::string warning_of(const Plan& plan);
/// The same for choices of `--benchmark` that are not offered.
std::string fallback_warning_of(const Plan& plan);

}  // namespace lockstep::runtime
