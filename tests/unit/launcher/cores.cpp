#include "launcher/cores.h"

#include "tests/support/catch.h"
#include "tests/unit/launcher/scratch_folder.h"

namespace lockstep::launcher {
namespace {

const CpuList four = {0, 1, 2, 3};

void add_siblings(const ScratchFolder& root, int cpu, const std::string& list) {
  root.write("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list", list);
}

TEST_CASE("without files the mask alone counts") {
  const ScratchFolder root;
  const Cores cores = find_cores({2, 5, 7}, root.path());
  CHECK(cores.cores == std::vector<CpuList>{{2}, {5}, {7}});
  CHECK(cores.quota == 0);
  CHECK(cores.usable() == 3);
}

TEST_CASE("hardware threads of one core count once, as far as they are in the mask") {
  const ScratchFolder root;
  root.write("sys/devices/system/cpu/smt/active", "1\n");
  add_siblings(root, 0, "0,2\n");
  add_siblings(root, 1, "1,3\n");
  add_siblings(root, 2, "0,2\n");
  add_siblings(root, 3, "1,3\n");
  CHECK(find_cores(four, root.path()).cores == std::vector<CpuList>{{0, 2}, {1, 3}});
  CHECK(find_cores({0, 1, 2}, root.path()).cores == std::vector<CpuList>{{0, 2}, {1}});
}

TEST_CASE("the quota of a cgroup v2 and of its parents") {
  const ScratchFolder root;
  root.write("proc/self/cgroup", "0::/job/step\n");
  SECTION("own group") {
    root.write("sys/fs/cgroup/job/step/cpu.max", "250000 100000\n");
    const Cores cores = find_cores(four, root.path());
    CHECK(cores.quota == Approx(2.5));
    CHECK(cores.usable() == 2);
  }
  SECTION("a parent's is smaller") {
    root.write("sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
    root.write("sys/fs/cgroup/job/cpu.max", "50000 100000\n");
    CHECK(find_cores(four, root.path()).usable() == 1);
  }
  SECTION("a container sees its own group as the mount") {
    root.write("sys/fs/cgroup/cpu.max", "300000 100000\n");
    CHECK(find_cores(four, root.path()).usable() == 3);
  }
  SECTION("no limit") {
    root.write("sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
    CHECK(find_cores(four, root.path()).quota == 0);
  }
}

TEST_CASE("the quota of a cgroup v1") {
  const ScratchFolder root;
  root.write("proc/self/cgroup", "4:memory:/job\n3:cpu,cpuacct:/job\n1:cpuset:/\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  SECTION("limited") {
    root.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "200000\n");
    CHECK(find_cores(four, root.path()).usable() == 2);
  }
  SECTION("-1 is no limit") {
    root.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
    CHECK(find_cores(four, root.path()).quota == 0);
  }
}

TEST_CASE("slices are contiguous, equal but for one, and cover the mask") {
  const Cores cores = {.cores = {{0}, {1}, {2}, {3}, {4}}, .quota = 0};
  CHECK(slice_cores(cores, 2) == std::vector<CpuList>{{0, 1}, {2, 3, 4}});
  CHECK(slice_cores(cores, 5).size() == 5);
  CHECK(slice_cores(cores, 6).empty());
  CHECK(slice_cores(cores, 1).empty());
}

TEST_CASE("a quota below the mask limits the ranks that are bound, not the slices") {
  const Cores cores = {.cores = {{0}, {1}, {2}, {3}}, .quota = 2};
  CHECK(slice_cores(cores, 2) == std::vector<CpuList>{{0, 1}, {2, 3}});
  CHECK(slice_cores(cores, 3).empty());
}

TEST_CASE("lists are written as the kernel writes them") {
  CHECK(format_cpu_list({0, 1, 2, 5, 7, 8}) == "0-2,5,7-8");
  CHECK(parse_cpu_list("0-2,5,7-8") == CpuList{0, 1, 2, 5, 7, 8});
  CHECK(parse_cpu_list("").empty());
}

/// Eight CPUs with numbers that alternate between two nodes, and four GPUs: two on node 1, then two on node
/// 0.
void write_machine(const ScratchFolder& root) {
  root.write("sys/devices/system/node/node0/cpulist", "0,2,4,6\n");
  root.write("sys/devices/system/node/node1/cpulist", "1,3,5,7\n");
  const char* const gpus[][3] = {{"0000:1b:00.0", "1", "GPU-aa11"},
                                 {"0000:3d:00.0", "1", "GPU-bb22"},
                                 {"0000:b4:00.0", "0", "GPU-cc33"},
                                 {"0000:d8:00.0", "0", "GPU-cc44"}};
  for (const auto& [bus_id, node, uuid] : gpus) {
    root.write(std::filesystem::path("sys/bus/pci/devices") / bus_id / "numa_node", std::string(node) + "\n");
    root.write(std::filesystem::path("proc/driver/nvidia/gpus") / bus_id / "information",
               std::string("Model: \t\t NVIDIA H100\nGPU UUID: \t ") + uuid + "\nDevice Minor: \t 0\n");
  }
}

const Cores eight = {.cores = {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}}, .quota = 0};

TEST_CASE("the node of each GPU, as ranks number them") {
  const ScratchFolder root;
  write_machine(root);
  const auto gpus = [&](const std::string& visible) { return find_numa_nodes(visible, root.path()).gpus; };
  CHECK(gpus("") == std::vector<int>{1, 1, 0, 0});
  CHECK(gpus("2,0") == std::vector<int>{0, 1});
  CHECK(gpus("GPU-cc4,GPU-bb22") == std::vector<int>{0, 1});
  CHECK(gpus("7,MIG-aa") == std::vector<int>{-1, -1});
  CHECK(find_numa_nodes("", root.path()).cpus == std::vector<CpuList>{{0, 2, 4, 6}, {1, 3, 5, 7}});
  CHECK_FALSE(find_numa_nodes("", root.path() / "none").matter());
}

TEST_CASE("ranks get slices near their GPUs") {
  const ScratchFolder root;
  write_machine(root);
  const auto slices = [&](const std::string& visible, int ranks) {
    return choose_slices(eight, ranks, "", find_numa_nodes(visible, root.path()));
  };
  using Slices = std::vector<CpuList>;
  CHECK(slices("", 4) == Slices{{1, 3}, {5, 7}, {0, 2}, {4, 6}});
  CHECK(slices("3,0", 2) == Slices{{0, 2, 4, 6}, {1, 3, 5, 7}});
  CHECK(slices("0,1", 2) == Slices{{1, 3, 5, 7}, {0, 2, 4, 6}});  // one of them has to be far
  CHECK(slices("MIG-aa", 2) == Slices{{0, 2, 4, 6}, {1, 3, 5, 7}});
  CHECK(choose_slices(eight, 2, "", {}) == Slices{{0, 1, 2, 3}, {4, 5, 6, 7}});
}

}  // namespace
}  // namespace lockstep::launcher
