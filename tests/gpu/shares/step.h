#pragma once

#include <string>
#include <vector>

#include "runtime/plan/plan.h"

namespace lockstep::shares {

/// Of a kernel, or the sum of some.
struct KernelTime {
  std::string name;                   ///< layer and op, or the update of a bucket
  const model::Node* node = nullptr;  ///< of the plan's graph; null: an update, or a sum
  int count = 1;
  double seconds = 0;
  double flops = 0;
  double bytes = 0;
  double limit_seconds = 0;  ///< what it would take at best; set by who knows it
};

/// Every kernel of a training step alone, in the order of the plan, which must outlive the result.
std::vector<KernelTime> time_step(const runtime::Plan& plan, kernels::Device& device);

KernelTime sum_of(const std::vector<KernelTime>& kernels);

/// The longest first. A kernel's kind is the last word of its name; updates are of one kind.
std::vector<KernelTime> sums_of_kinds(const std::vector<KernelTime>& kernels);

}  // namespace lockstep::shares
