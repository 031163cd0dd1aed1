#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kernels/base/cores.h"
#include "kernels/base/host.h"

namespace lockstep::launcher {

/// Which CPUs and GPUs are near each other.
struct NumaNodes {
  std::vector<CpuList> cpus;  ///< by node
  std::vector<int> gpus;      ///< the node of each GPU, as ranks number them; -1: not known

  bool matter() const { return cpus.size() > 1 && !gpus.empty(); }
  /// -1 when no node has it.
  int node_of(int cpu) const;
};

/// From the driver's and the system's files below `root`. `visible`: CUDA_VISIBLE_DEVICES, "" when it is not
/// set. GPUs without a list are numbered as on the PCI bus, which is CUDA's order for equal ones.
NumaNodes find_numa_nodes(const std::string& visible, const std::filesystem::path& root = "/");

/// The same cores, those of one node together.
Cores group_by_node(Cores cores, const NumaNodes& nodes);

/// The same slices, in such an order that as many ranks as can be are near the GPU of their number (modulo
/// GPUs).
std::vector<CpuList> match_to_gpus(std::vector<CpuList> slices, const NumaNodes& nodes);

/// How many ranks `wanted` (--nproc-per-node) means: a number, cpu, gpu, or auto: a rank per GPU if there is
/// any, else per core. DeviceError for gpu without one, UsageError for anything else.
int count_ranks(const std::string& wanted, const Cores& cores, int devices);

/// The slices to bind the ranks to, near their GPUs where there are nodes to choose from. `omp_threads`: as
/// `slice_cores` has it.
std::vector<CpuList> choose_slices(const Cores& cores, int ranks, int omp_threads, const NumaNodes& nodes);

/// The line at the start: "2 ranks on 2 cores: 1 thread each, bound to cores 0 | 1". `threads` as the user
/// set it, or empty.
std::string start_line(const Cores& cores, const std::vector<CpuList>& slices, int ranks,
                       const std::string& threads);

}  // namespace lockstep::launcher
