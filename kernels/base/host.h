#pragma once

#include <sched.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// This machine's name, for reports; "?" when the system does not tell.
std::string host_name();

/// The kernel's random id of this boot: equal in two processes on one machine, containers included. Empty
/// when the system does not tell.
std::string boot_id();

/// When a process ("self" or a pid) was started, in clock ticks since boot: with the pid its name for as long
/// as the machine runs. Nothing when it is gone.
std::optional<std::int64_t> start_ticks(const std::string& process);

/// CLOCK_BOOTTIME in nanoseconds.
std::int64_t boottime_ns();

/// CPUs by number, ascending.
using CpuList = std::vector<int>;

/// The calling thread's affinity mask, which `get` reads as sched_getaffinity(2) does; all CPUs that are
/// switched on where it cannot.
CpuList affinity_mask(int (*get)(pid_t, std::size_t, cpu_set_t*) = ::sched_getaffinity);

/// "0-3,8": a list as the kernel writes it, and back.
std::string format_cpu_list(const CpuList& cpus);
CpuList parse_cpu_list(const std::string& text);

}  // namespace lockstep
