#pragma once

#include <vector>

#include "runtime/performance/gpu_factors.h"
#include "runtime/plan/plan.h"

namespace lockstep::runtime {

/// Which units multiply.
enum class MathUnit { f32, tf32, half };

/// Work of one kind that a launch does.
struct KernelWork {
  WorkKind kind = WorkKind::pass;
  MathUnit unit = MathUnit::f32;
  double flops = 0;
  double bytes = 0;  ///< to and from the GPU's memory, as if nothing stayed in its caches
  double launches = 1;
  double tiles = 0;  ///< of a product's result, each a multiprocessor's work; 0: enough for all
};

/// What a step's launch does, in its parts; empty for steps that launch nothing.
std::vector<KernelWork> work_of(const Plan& plan, const Step& step);

}  // namespace lockstep::runtime
