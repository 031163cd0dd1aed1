#pragma once

#include <string>
#include <vector>

#include "runtime/options/options.h"
#include "runtime/predict/scaling.h"

namespace lockstep::runtime {

/// What `trainer plan --ranks` is asked.
struct ScalingRequest {
  std::string gpu;           ///< --for: a GPU that need not be there; empty: not given
  int ranks = 0;             ///< 0: nothing is predicted
  int ranks_per_node = 0;    ///< 0: not given
  double link_gigabits = 0;  ///< 0: not given
};

/// Takes --for, --ranks, --nproc-per-node and --link out of `arguments`. UsageError for what contradicts
/// itself.
ScalingRequest take_scaling_request(std::vector<std::string>& arguments);

/// One rank, then 2, 4, ... of them.
std::vector<Cluster> clusters_of(const ScalingRequest& request);

/// These options, for --help.
std::string scaling_help();

/// Measures the options' training step on this machine and prints what it would take on 1, 2, 4, ... ranks.
void print_scaling(const Options& options, const ScalingRequest& request);

}  // namespace lockstep::runtime
