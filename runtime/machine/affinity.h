#pragma once

#include <filesystem>
#include <string>

#include "comm/world/world.h"
#include "kernels/base/cpu_list.h"

namespace lockstep::runtime {

/// The CPUs that this process may run on, as the kernel lists them ("0-3,8").
std::string affinity_list();

/// The CPUs of `allowed` on the NUMA node of the PCI device `bus_id`, from the system files below `root`.
/// Empty when these do not know the node, and when none of its CPUs is allowed.
CpuList cpus_near(const std::string& bus_id, const CpuList& allowed, const std::filesystem::path& root = "/");

/// Binds the calling thread, and threads that it starts later, to the CPUs near its GPU that it may use; does
/// nothing when there are none, or all are near. `bus_id`: empty on the CPU.
void bind_near(const std::string& bus_id);

/// A hint in one line when mpirun has bound this rank to one core, as it does in small jobs: compute and
/// communication then alternate on that core. Else "".
std::string binding_advice(const comm::World& world);

}  // namespace lockstep::runtime
