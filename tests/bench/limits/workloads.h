#pragma once

#include <string>
#include <vector>

#include "kernels/device.h"
#include "runtime/plan/plan.h"

namespace lockstep::bench {

/// What a workload of tests/bench/compare is measured for.
enum class Table { convolutions, products, step };

/// Names as compare has them, without "_bf16": those whose convolutions or products matter, or all.
std::vector<std::string> workloads_of(Table table);

/// The plan of a workload's training step on one rank; in mixed precision if `bf16`.
runtime::Plan plan_of(const std::string& workload, bool bf16, const kernels::Device& device);

}  // namespace lockstep::bench
