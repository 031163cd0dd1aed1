#include "runtime/machine/affinity.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "kernels/base/number.h"

namespace lockstep::runtime {
namespace {

int cpus_in_mask() {
  cpu_set_t mask;
  return ::sched_getaffinity(0, sizeof(mask), &mask) == 0 ? CPU_COUNT(&mask) : 0;
}

}  // namespace

std::string affinity_list() {
  std::ifstream file("/proc/self/status");
  const std::string name = "Cpus_allowed_list:\t";
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name)) return line.substr(name.size());
  }
  return "unknown";
}

CpuList cpus_near(const std::string& bus_id, const CpuList& allowed, const std::filesystem::path& root) {
  const auto node = parse_number<int>(first_line(root / "sys/bus/pci/devices" / bus_id / "numa_node"));
  if (bus_id.empty() || !node || *node < 0) return {};  // -1: the firmware does not know
  const auto file = fmt::format("sys/devices/system/node/node{}/cpulist", *node);
  CpuList near;
  std::ranges::set_intersection(parse_cpu_list(first_line(root / file)), allowed, std::back_inserter(near));
  return near;
}

void bind_near(const std::string& bus_id) {
  const CpuList allowed = affinity_mask();
  const CpuList near = cpus_near(bus_id, allowed);
  if (near.empty() || near == allowed) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : near) CPU_SET(cpu, &set);
  // Without permission the rank works too, only farther from its GPU.
  if (::sched_setaffinity(0, sizeof set, &set) != 0)
    log::warn("cannot bind to CPUs {}", format_cpu_list(near));
}

std::string binding_advice(const comm::World& world) {
  if (world.source != "openmpi" || world.size == 1) return {};
  if (cpus_in_mask() != 1 || ::sysconf(_SC_NPROCESSORS_ONLN) == 1) return {};
  return "mpirun has bound this rank to one CPU, where computing and exchanging take turns: give it "
         "--bind-to none";
}

}  // namespace lockstep::runtime
