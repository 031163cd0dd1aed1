#pragma once

#include <filesystem>
#include <vector>

#include "kernels/base/host.h"

/// How much a process may compute at the same time. System files are read below `root`.
namespace lockstep {

/// `cpus` by core: of each core the hardware threads that are among them, by lowest CPU number.
std::vector<CpuList> group_by_core(const CpuList& cpus, const std::filesystem::path& root = "/");

/// CPUs of this machine that are switched on, whoever may use them.
int online_cpus(const std::filesystem::path& root = "/");

/// CPUs that the cgroup of this process (v1 and v2) and its parents grant, the least of them; 0: no limit.
double cgroup_quota(const std::filesystem::path& root = "/");

/// How many of `cpus` a quota lets compute at the same time (0: all); at least 1.
int cpus_within(double quota, int cpus);

}  // namespace lockstep
