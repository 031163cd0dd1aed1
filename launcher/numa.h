#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "launcher/cores.h"

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

}  // namespace lockstep::launcher
