#include "kernels/base/gpus.h"

#include <stdlib.h>

#include "tests/support/catch.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::launcher {
namespace {

using tests::ScratchFolder;

/// CUDA_VISIBLE_DEVICES for one test.
class VisibleDevices {
 public:
  explicit VisibleDevices(const char* list) { setenv("CUDA_VISIBLE_DEVICES", list, 1); }
  ~VisibleDevices() { unsetenv("CUDA_VISIBLE_DEVICES"); }
};

TEST_CASE("GPUs are counted by their device files, as far as they are visible") {
  const ScratchFolder dev;
  for (const char* name : {"nvidia0", "nvidia1", "nvidia12", "nvidiactl", "nvidia-uvm", "nvidia", "null"}) {
    dev.write(name, "");
  }
  unsetenv("CUDA_VISIBLE_DEVICES");
  CHECK(count_devices(dev.path()) == 3);
  CHECK(count_devices(dev.path() / "missing") == 0);
  const auto visible = [&](const char* list) {
    const VisibleDevices variable(list);
    return count_devices(dev.path());
  };
  CHECK(visible("0,12") == 2);
  CHECK(visible("GPU-8a1f") == 1);
  CHECK(visible("MIG-5c2b,MIG-77aa,MIG-9e01,MIG-1b44") == 4);  // parts of three GPUs
  CHECK(visible("0,-1,1") == 1);
  CHECK(visible("") == 0);
  CHECK(visible("0,1,2,3,4,5") == 3);
}

}  // namespace
}  // namespace lockstep::launcher
