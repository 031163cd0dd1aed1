#include "kernels/base/gpus.h"

#include "tests/support/catch.h"

using namespace lockstep;
using tests::contains;

TEST_CASE("GPUs and drivers that are too old are told so") {
  CHECK(gpu_problem(75).empty());
  CHECK(gpu_problem(120).empty());
  CHECK_THAT(gpu_problem(70), contains("compute capability 7.0"));
  CHECK(driver_problem(12040, 12080).empty());
  CHECK(driver_problem(13000, 13000).empty());
  CHECK(driver_problem(13010, 12040).empty());
  CHECK_THAT(driver_problem(12020, 12040), contains("it is for CUDA 12.2, and 12.4 is the oldest"));
  CHECK_THAT(driver_problem(12090, 13000), contains("it is for CUDA 12.9, and this build uses 13.0"));
  CHECK_FALSE(driver_problem(0, 13000).empty());
}

TEST_CASE("the driver's release is read from what it tells of itself") {
  CHECK(driver_release(
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n"
            "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n") == "550.54.15");
  CHECK(driver_release("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build") ==
        "580.95.05");
  CHECK(driver_release("").empty());
}

TEST_CASE("what CUDA_VISIBLE_DEVICES shows") {
  using Devices = std::vector<std::string>;
  CHECK(visible_devices("0,2,GPU-8a1f") == Devices{"0", "2", "GPU-8a1f"});
  CHECK(visible_devices("1,-1,2") == Devices{"1"});
  CHECK(visible_devices("none").empty());
  CHECK(visible_devices("").empty());
  CHECK(count_visible("0,1,2,3", 2) == 2);
  CHECK(count_visible("GPU-a,GPU-b", 8) == 2);
  CHECK(count_visible("MIG-a,MIG-b,MIG-c,MIG-d", 1) == 4);  // parts of one GPU
  CHECK(count_visible("MIG-a,MIG-b", 0) == 0);
}
