#pragma once

#include <filesystem>
#include <vector>

#include "kernels/base/cpu_list.h"

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

}  // namespace lockstep::launcher
