#pragma once

#include "kernels/abi.h"
#include "kernels/base/abi.h"
#include "kernels/cuda/library.h"

struct CUuuid_st;  // cudaUUID_t: this header is for programs that know no CUDA, too

namespace lockstep::kernels {

/// What liblockstep_cuda.so offers. It is the one thing of `kernels/` linked to CUDA, so a program maps CUDA
/// only when it loads this.
struct CudaModule {
  AbiIdentity identity;
  std::unique_ptr<Device> (*make_device)(int index);
  std::unique_ptr<Device> (*describe_device)(const std::string& json);
  int (*device_count)();
  std::vector<CudaDeviceInfo> (*devices)();
  CudaVersions (*versions)();
};

inline AbiIdentity cuda_module_identity() {
  return abi_identity(abi_border() + sizes_of<CudaModule, CudaDeviceInfo, CudaVersions>());
}

/// What gives it: `const CudaModule* lockstep_cuda_module()`.
inline constexpr const char* cuda_module_symbol = "lockstep_cuda_module";

/// The functions of `library.h` inside liblockstep_cuda.so.
std::unique_ptr<Device> open_cuda_device(int index);
std::unique_ptr<Device> describe_cuda_device(const std::string& json);
std::vector<CudaDeviceInfo> list_cuda_devices();
CudaVersions list_cuda_versions();

/// 0 without a GPU or driver.
int cuda_device_count();

/// Place on the PCI bus, as the system writes it: "0000:3b:00.0".
std::string bus_id_of(int index);

/// As nvidia-smi and CUDA_VISIBLE_DEVICES write it: "GPU-8a1f0c2d-...".
std::string uuid_text(const CUuuid_st& uuid);

}  // namespace lockstep::kernels
