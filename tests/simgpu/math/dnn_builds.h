#pragma once

#include <string>
#include <string_view>

#include "kernels/plan_store.h"

namespace simgpu {

/// What building a plan of a convolution means for a library that takes up to seconds for it.

/// SIMGPU_DNN_UNBUILDABLE=plan: it is offered and supported, and cannot be built, as a library's may.
bool is_buildable(std::string_view plan);

/// Counts the build. SIMGPU_DNN_BUILDS=n: mistake "too many builds" when the process makes more.
/// SIMGPU_DNN_COMPILED=1: plans are compiled when they are built, and have texts; one that is `kept` (null:
/// none is) is taken in place of a build, and a build keeps its plan.
void build_plan(const std::string& plan, const lockstep::kernels::PlanStore* kept);

}  // namespace simgpu
