#pragma once

#include <string>
#include <vector>

#include "runtime/plan/plan.h"
#include "tests/gpu/shares/timing.h"

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

/// A launch of a plan, and what its operands hold when it is run alone.
struct StepKernel {
  std::string name;                   ///< layer and op, or the update of a bucket
  const model::Node* node = nullptr;  ///< null: none of the plan's graph
  const runtime::Launch* launch = nullptr;
  bool is_update = false;
  Contents contents{};
};

/// All launches of a plan, which must outlive the result, in its order.
std::vector<StepKernel> kernels_of(const runtime::Plan& plan);

/// Every kernel of nodes and updates alone, in the order of the plan, which must outlive the result.
std::vector<KernelTime> time_step(const runtime::Plan& plan, kernels::Device& device);

KernelTime sum_of(const std::vector<KernelTime>& kernels);

/// The longest first. A kernel's kind is the last word of its name; updates are of one kind.
std::vector<KernelTime> sums_of_kinds(const std::vector<KernelTime>& kernels);

}  // namespace lockstep::shares
