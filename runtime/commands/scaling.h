#pragma once

#include <string>
#include <vector>

#include "kernels/base/cores.h"
#include "runtime/options/options.h"
#include "runtime/performance/scaling.h"

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

/// The threads and the cores of each rank of a full node, as `launch` gives them.
struct RankCores {
  int threads = 1;
  std::vector<CpuList> slices;  ///< by rank: the CPUs that it is bound to; empty: none is bound
  bool has_spare = false;       ///< a rank has more cores than threads
};

/// `threads` (--threads), `omp_threads` (OMP_NUM_THREADS): 0: not given. UsageError when the ranks that are
/// measured at the same time want more CPUs than there are.
RankCores cores_of_ranks(const ScalingRequest& request, const Cores& cores, int threads, int omp_threads);

/// These options, for --help.
std::string scaling_help();

/// Measures the options' training step on this machine and prints what it would take on 1, 2, 4, ... ranks.
void print_scaling(const Options& options, const ScalingRequest& request);

}  // namespace lockstep::runtime
