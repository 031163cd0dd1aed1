#pragma once

#include <string>
#include <vector>

#include "kernels/cuda/library.h"

namespace lockstep::kernels {

/// What the functions of `library.h` come to, inside liblockstep_cuda.so.
std::unique_ptr<Device> open_cuda_device(int index);
std::vector<CudaDeviceInfo> list_cuda_devices();
std::string list_cuda_versions();

/// 0 without a GPU or driver.
int cuda_device_count();

}  // namespace lockstep::kernels
