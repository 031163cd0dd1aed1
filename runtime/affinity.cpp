#include "runtime/affinity.h"

#include <sched.h>
#include <unistd.h>

#include <fstream>

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

std::string binding_advice(const comm::World& world) {
  if (world.source != "openmpi" || world.size == 1) return {};
  if (cpus_in_mask() != 1 || ::sysconf(_SC_NPROCESSORS_ONLN) == 1) return {};
  return "mpirun has bound this rank to one CPU, where computing and exchanging take turns: give it "
         "--bind-to none";
}

}  // namespace lockstep::runtime
