#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/plan/plan.h"
#include "tests/gpu/shares/step.h"

namespace lockstep::bench {

/// The kernels of a training step, each alone beside what it would take at its limit: products and
/// convolutions as oneDNN itself computes them (comparison.h); any other as long as a copy of its bytes or,
/// with attention in mind, as oneDNN's best product of as many FLOPs. A kernel that is faster is its own
/// limit.
struct StepTable {
  std::string workload;
  bool bf16 = false;
  int threads = 1;
  double bytes_per_s = 0;  ///< of memcpy
  double flops_per_s = 0;  ///< of a product in the caches
  runtime::Plan plan;
  std::vector<shares::KernelTime> kernels;

  nlohmann::json json() const;
  void print() const;  ///< by kind
};

StepTable measure_step(const std::string& workload, bool bf16, int threads);

}  // namespace lockstep::bench
