#include "launcher/cores.h"

#include "tests/support/catch.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::launcher {
namespace {

using tests::ScratchFolder;

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
    return choose_slices(eight, ranks, 0, find_numa_nodes(visible, root.path()));
  };
  using Slices = std::vector<CpuList>;
  CHECK(slices("", 4) == Slices{{1, 3}, {5, 7}, {0, 2}, {4, 6}});
  CHECK(slices("3,0", 2) == Slices{{0, 2, 4, 6}, {1, 3, 5, 7}});
  CHECK(slices("0,1", 2) == Slices{{1, 3, 5, 7}, {0, 2, 4, 6}});  // one of them has to be far
  CHECK(slices("MIG-aa", 2) == Slices{{0, 2, 4, 6}, {1, 3, 5, 7}});
  CHECK(choose_slices(eight, 2, 0, {}) == Slices{{0, 1, 2, 3}, {4, 5, 6, 7}});
}

}  // namespace
}  // namespace lockstep::launcher
