#pragma once

#include <filesystem>

namespace lockstep {

/// GPUs that processes started here may have, counted without a CUDA call: CUDA_VISIBLE_DEVICES if set, else
/// /dev/nvidia0, /dev/nvidia1, ... In a build with the CUDA machine in software: SIMGPU_DEVICES.
int count_devices(const std::filesystem::path& dev = "/dev");

}  // namespace lockstep
