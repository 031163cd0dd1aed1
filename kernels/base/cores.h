#pragma once

#include <filesystem>
#include <vector>

#include "kernels/base/host.h"

/// How much a process may compute at the same time. System files are read below `root`.
namespace lockstep {

/// That a rank may be given to compute with.
inline constexpr int most_threads = 4096;

/// `cpus` by core: of each core the hardware threads that are among them, by lowest CPU number.
std::vector<CpuList> group_by_core(const CpuList& cpus, const std::filesystem::path& root = "/");

/// CPUs of this machine that are switched on, whoever may use them.
int online_cpus(const std::filesystem::path& root = "/");

/// CPUs that the cgroup of this process (v1 and v2) and its parents grant, the least of them; 0: no limit.
double cgroup_quota(const std::filesystem::path& root = "/");

/// How many of `cpus` a quota lets compute at the same time (0: all); at least 1.
int cpus_within(double quota, int cpus);

/// The cores that this process may use.
struct Cores {
  std::vector<CpuList> cores;  ///< per core its hardware threads in the affinity mask, by lowest CPU number
  double quota = 0;            ///< CPUs that the cgroup grants; 0: no limit

  /// Cores that can compute at the same time: in the mask and inside the quota; at least 1.
  int usable() const;
  /// Usable ones for each of `ranks`, which has as many threads unless the user chooses; at least 1.
  int per_rank(int ranks) const;
};

/// `mask` grouped into cores, and the quota.
Cores find_cores(const CpuList& mask, const std::filesystem::path& root = "/");

/// The CPUs to bind each rank to: a contiguous slice of the cores. None when there is one rank, when ranks
/// outnumber the usable cores, or when OMP_NUM_THREADS (`omp_threads`, 0: not set) wants more than a rank's
/// cores. A quota smaller than the mask narrows the thread counts, not the slices: which CPUs it pays for is
/// not fixed.
std::vector<CpuList> slice_cores(const Cores& cores, int ranks, int omp_threads = 0);

}  // namespace lockstep
