#include "runtime/machine/open_device.h"

#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

using namespace lockstep;
using namespace lockstep::runtime;

namespace {

/// Two nodes with interleaved numbers, as some firmware has them.
void write_machine(const std::filesystem::path& root) {
  const auto write = [&](const std::string& name, const std::string& text) {
    std::filesystem::create_directories((root / name).parent_path());
    std::ofstream(root / name) << text << '\n';
  };
  write("sys/devices/system/node/node0/cpulist", "0,2,4,6");
  write("sys/devices/system/node/node1/cpulist", "1,3,5,7");
  write("sys/bus/pci/devices/0000:1b:00.0/numa_node", "0");
  write("sys/bus/pci/devices/0000:b4:00.0/numa_node", "1");
  write("sys/bus/pci/devices/0000:00:05.0/numa_node", "-1");
  write("sys/bus/pci/devices/0000:00:06.0/numa_node", "4");
}

}  // namespace

TEST_CASE("CPUs near a GPU are those of its NUMA node that the process may use") {
  const tests::TemporaryFolder root;
  write_machine(root.path());
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
