#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// This machine's name, for reports; "?" when the system does not tell.
std::string host_name();

/// The kernel's random id of this boot: equal in two processes on one machine, containers included. Empty
/// when the system does not tell.
std::string boot_id();

/// CPUs by number, ascending.
using CpuList = std::vector<int>;

/// The calling thread's affinity mask.
CpuList affinity_mask();

/// "0-3,8": a list as the kernel writes it, and back.
std::string format_cpu_list(const CpuList& cpus);
CpuList parse_cpu_list(const std::string& text);

}  // namespace lockstep
