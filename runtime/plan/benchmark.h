#pragma once

#include "runtime/plan/plan.h"

namespace lockstep::runtime {

/// `--benchmark`: times every op of the plan that the device can compute in several ways, on scratch memory,
/// and returns the fastest of each (best of a few tries). The counterpart of cudnn.benchmark, on the CPU too.
SelectedAlgorithms benchmark_algorithms(const Plan& plan, kernels::Device& device);

/// As text, to be sent to the other ranks.
std::string to_text(const SelectedAlgorithms& choices);
SelectedAlgorithms selected_algorithms_from(const std::string& text);

}  // namespace lockstep::runtime
