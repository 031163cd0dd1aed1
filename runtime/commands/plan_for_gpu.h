#pragma once

#include "runtime/commands/scaling.h"
#include "runtime/options/options.h"

namespace lockstep::runtime {

/// `trainer plan --for GPU`: the plan as that GPU would get it, with the time of each step by a roofline; or,
/// of all GPUs that are known, a table. UsageError when this build has no CUDA.
void print_plan_for_gpu(const Options& options, const ScalingRequest& request);

}  // namespace lockstep::runtime
