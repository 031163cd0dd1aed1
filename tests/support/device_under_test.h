#pragma once

#include <cstdlib>
#include <memory>
#include <string_view>

#include "kernels/cuda/library.h"
#include "kernels/device.h"

namespace lockstep::tests {

/// The device that LOCKSTEP_TEST_DEVICE names, cpu or cuda: every test of kernels runs on each that is built.
inline std::unique_ptr<kernels::Device> make_device_under_test(int cpu_threads) {
  const char* name = std::getenv("LOCKSTEP_TEST_DEVICE");
  if (name != nullptr && std::string_view(name) == "cuda") return kernels::make_cuda_device(0);
  return kernels::make_cpu_device(cpu_threads);
}

/// No GPU, but the machine in software: its libraries and its functions of math are the host's.
inline bool is_simulated(const kernels::Device& device) {
  return !device.is_cpu() && kernels::cuda_in_this_build() == "simulated";
}

}  // namespace lockstep::tests
