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

/// Place on the PCI bus, as the system writes it: "0000:3b:00.0".
std::string bus_id_of(int index);

}  // namespace lockstep::kernels
