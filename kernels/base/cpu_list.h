#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// CPUs by number, ascending.
using CpuList = std::vector<int>;

/// The calling thread's affinity mask.
CpuList affinity_mask();

/// "0-3,8": a list as the kernel writes it, and back.
std::string format_cpu_list(const CpuList& cpus);
CpuList parse_cpu_list(const std::string& text);

}  // namespace lockstep
