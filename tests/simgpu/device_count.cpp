#include "kernels/base/gpus.h"

#include <cstdlib>

namespace lockstep {

/// Of the CUDA machine in software: takes the place of the count of /dev/nvidia*.
int count_devices(const std::filesystem::path&) {
  const char* devices = std::getenv("SIMGPU_DEVICES");
  const int all = devices == nullptr ? 1 : std::atoi(devices);
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible == nullptr ? all : count_visible(visible, all);
}

}  // namespace lockstep
