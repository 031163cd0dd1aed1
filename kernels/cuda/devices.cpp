#include <fmt/format.h>

#include "kernels/cuda/device.h"
#include "kernels/cuda/dnn.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/stream.h"

namespace lockstep::kernels {
namespace {

std::string version(int number) {
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

CudaDeviceInfo info_of(int index) {
  make_current(index);
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "cannot read the GPU's properties");
  char bus_id[32] = {};
  check(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, index), "cannot read the GPU's bus id");
  CudaDeviceInfo info{.index = index,
                      .name = properties.name,
                      .bus_id = bus_id,
                      .compute_capability = 10 * properties.major + properties.minor};
  check(cudaMemGetInfo(&info.free_bytes, &info.memory_bytes), "cannot read the free memory");
  return info;
}

}  // namespace

/// Without a driver CUDA tells of an error, without a GPU of another.
int cuda_device_count() {
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  if (result == cudaErrorNoDevice || result == cudaErrorInsufficientDriver) {
    cudaGetLastError();
    return 0;
  }
  check(result, "cannot count the GPUs");
  return count;
}

std::vector<CudaDeviceInfo> list_cuda_devices() {
  std::vector<CudaDeviceInfo> devices;
  const int count = cuda_device_count();
  int current = 0;
  if (count > 0) check(cudaGetDevice(&current), "cannot tell the current device");
  for (int index = 0; index < count; ++index) devices.push_back(info_of(index));
  if (count > 0) make_current(current);
  return devices;
}

std::string list_cuda_versions() {
  int driver = 0;
  int runtime = 0;
  check(cudaDriverGetVersion(&driver), "cannot read the driver's version");
  check(cudaRuntimeGetVersion(&runtime), "cannot read CUDA's version");
  return fmt::format("CUDA {}, {}, {}, {}", version(runtime), gemm_library(), dnn_library(),
                     driver == 0 ? "no driver" : "driver for CUDA " + version(driver));
}

}  // namespace lockstep::kernels
