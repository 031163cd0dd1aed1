#include "runtime/machine/open_device.h"

#include <numeric>

#include "tests/support/catch.h"
#include "tests/support/scratch_folder.h"

using namespace lockstep;
using namespace lockstep::runtime;
using tests::ScratchFolder;

namespace {

/// Two nodes with interleaved numbers, as some firmware has them.
void write_machine(const ScratchFolder& root) {
  root.write("sys/devices/system/node/node0/cpulist", "0,2,4,6\n");
  root.write("sys/devices/system/node/node1/cpulist", "1,3,5,7\n");
  root.write("sys/bus/pci/devices/0000:1b:00.0/numa_node", "0\n");
  root.write("sys/bus/pci/devices/0000:b4:00.0/numa_node", "1\n");
  root.write("sys/bus/pci/devices/0000:00:05.0/numa_node", "-1\n");
  root.write("sys/bus/pci/devices/0000:00:06.0/numa_node", "4\n");
}

comm::World ranks_here(int ranks, const std::string& source) {
  return {.size = ranks, .local_size = ranks, .source = source};
}

/// 0, 1, ...
CpuList first_cpus(int count) {
  CpuList cpus(static_cast<std::size_t>(count));
  std::iota(cpus.begin(), cpus.end(), 0);
  return cpus;
}

}  // namespace

TEST_CASE("CPUs near a GPU are those of its NUMA node that the process may use") {
  const ScratchFolder root;
  write_machine(root);
  struct Row {
    std::string bus_id;
    CpuList allowed;
    CpuList near;
  };
  const CpuList all{0, 1, 2, 3, 4, 5, 6, 7};
  const Row rows[]{
      {"0000:1b:00.0", all, {0, 2, 4, 6}},
      {"0000:b4:00.0", all, {1, 3, 5, 7}},
      {"0000:b4:00.0", {0, 1, 2, 3}, {1, 3}},
      {"0000:b4:00.0", {0, 2}, {}},  // a launcher has bound it elsewhere
      {"0000:00:05.0", all, {}},     // the firmware does not tell
      {"0000:00:06.0", all, {}},     // a node without a list
      {"0000:ff:00.0", all, {}},
      {"", all, {}},
  };
  for (const Row& row : rows) {
    INFO(row.bus_id);
    CHECK(cpus_near(row.bus_id, row.allowed, root.path()) == row.near);
  }
}

TEST_CASE("a rank has its part of the cgroup's quota, and of a mask that it shares") {
  const ScratchFolder root;
  root.write("sys/devices/system/cpu/online", "0-63\n");
  root.write("proc/self/cgroup", "0::/\n");
  struct Row {
    const char* quota;  ///< of 100 ms
    int allowed;
    int ranks;
    int cores;
  };
  const Row rows[]{
      {"max", 64, 1, 64},   {"max", 64, 4, 16},   {"max", 16, 4, 16},  // a mask of its own
      {"400000", 64, 1, 4},                                            // docker run --cpus=4
      {"800000", 64, 2, 4},                                            // mpirun in a pod of 8
      {"800000", 32, 2, 4},  // as launch binds them there: a part of the mask each, but of the whole quota
      {"800000", 4, 2, 4},   // bound to as many as its part
      {"800000", 2, 2, 2},   // to fewer
      {"250000", 64, 2, 1}, {"200000", 64, 4, 1}, {"9900000", 64, 1, 64},
  };
  for (const Row& row : rows) {
    CAPTURE(row.quota, row.allowed, row.ranks);
    root.write("sys/fs/cgroup/cpu.max", std::string(row.quota) + " 100000\n");
    CHECK(usable_cores(ranks_here(row.ranks, "openmpi"), first_cpus(row.allowed), root.path()) == row.cores);
  }
}

TEST_CASE("a rank that mpirun bound to one core of several is told, however many hardware threads that has") {
  const ScratchFolder root;
  root.write("sys/devices/system/cpu/online", "0-3\n");
  root.write("sys/devices/system/cpu/smt/active", "1\n");
  for (const int cpu : {0, 1, 2, 3}) {
    root.write("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
               cpu % 2 == 0 ? "0,2\n" : "1,3\n");
  }
  const auto advice = [&](const comm::World& world, const CpuList& allowed) {
    return binding_advice(world, allowed, root.path());
  };
  const comm::World two = ranks_here(2, "openmpi");
  CHECK_THAT(advice(two, {1, 3}), tests::contains("one core") && tests::contains("--bind-to none"));
  CHECK_THAT(advice(two, {1}), tests::contains("--bind-to none"));
  CHECK(advice(two, {0, 1}).empty());
  CHECK(advice(two, {0, 1, 2, 3}).empty());
  CHECK(advice(ranks_here(1, "openmpi"), {1, 3}).empty());
  CHECK(advice(ranks_here(2, "slurm"), {1, 3}).empty());
  root.write("sys/devices/system/cpu/online", "1,3\n");  // a machine of one core has no more to give
  CHECK(advice(two, {1, 3}).empty());
}
