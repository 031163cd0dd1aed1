#pragma once

#include <string>
#include <vector>

#include "runtime/plan/plan.h"

namespace lockstep::shares {

struct KernelTime {
  std::string name;  ///< layer and op, or the update of a bucket
  double seconds = 0;
  double flops = 0;
  double bytes = 0;
};

/// Every kernel of a training step alone, in the order of the plan.
std::vector<KernelTime> time_step(const runtime::Plan& plan, kernels::Device& device);

}  // namespace lockstep::shares
