#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kernels/base/host.h"

namespace lockstep::launcher {

/// The cores that this process may use.
struct Cores {
  std::vector<CpuList> cores;  ///< per core its hardware threads in the affinity mask, by lowest CPU number
  double quota = 0;            ///< CPUs that the cgroup grants; 0: no limit

  /// Cores that can compute at the same time: in the mask and inside the quota; at least 1.
  int usable() const;
};

/// `mask` grouped into cores, and the least CPU quota of our cgroup (v1 and v2) and its parents. System files
/// are read below `root`.
Cores find_cores(const CpuList& mask, const std::filesystem::path& root = "/");

/// One contiguous slice of the mask per rank; empty when ranks outnumber the usable cores or there is one
/// rank. A quota smaller than the mask narrows the thread counts, not the slices: which CPUs it pays for is
/// not fixed.
std::vector<CpuList> slice_cores(const Cores& cores, int ranks);

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

/// The slices to bind the ranks to, near their GPUs where there are nodes to choose from; none when
/// OMP_NUM_THREADS (`threads`, may be empty) wants more than a slice has.
std::vector<CpuList> choose_slices(const Cores& cores, int ranks, const std::string& threads,
                                   const NumaNodes& nodes);

/// The line at the start: "2 ranks on 2 cores: 1 thread each, bound to cores 0 | 1". `threads` as the user
/// set it, or empty.
std::string start_line(const Cores& cores, const std::vector<CpuList>& slices, int ranks,
                       const std::string& threads);

}  // namespace lockstep::launcher
