#pragma once

#include <filesystem>
#include <string>

#include "comm/world/world.h"
#include "kernels/base/cpu_list.h"

namespace lockstep::runtime {

/// The CPUs that this process may run on, as the kernel lists them ("0-3,8").
std::string affinity_list();

/// Of `allowed` the CPUs on the NUMA node of the PCI device `bus_id`, as the system files below `root` tell
/// it. Empty when they do not, and when none of these is allowed.
CpuList cpus_near(const std::string& bus_id, const CpuList& allowed, const std::filesystem::path& root = "/");

/// Binds the calling thread, and those that it starts from now on, to the CPUs near its GPU that it may use;
/// leaves it where it is when there are none, or all are near. `bus_id`: empty on the CPU.
void bind_near(const std::string& bus_id);

/// mpirun binds each rank of a small job to one core: compute and communication then take turns on it. One
/// line with the hint when that is so, else "".
std::string binding_advice(const comm::World& world);

}  // namespace lockstep::runtime
