// What liblockstep_cuda.so tells of the GPUs, and its entry: see module.h.
#include <fmt/format.h>

#include <algorithm>

#include "kernels/base/error.h"
#include "kernels/base/export.h"
#include "kernels/base/file.h"
#include "kernels/base/gpus.h"
#include "kernels/cuda/dnn.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/module.h"
#include "kernels/cuda/stream.h"

namespace lockstep::kernels {
namespace {

int attribute_of(int index, cudaDeviceAttr attribute) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, attribute, index), "cannot read an attribute of the GPU");
  return value;
}

/// Two transfers a clock on each line of the bus, in bytes a second.
double memory_bandwidth_of(int index) {
  const double hertz = 1e3 * attribute_of(index, cudaDevAttrMemoryClockRate);
  return 2 * hertz * attribute_of(index, cudaDevAttrGlobalMemoryBusWidth) / 8;
}

/// What the driver tells of it comes first: to choose a GPU makes a context on it, which fails where another
/// process has it alone.
void look_at(CudaDeviceInfo& info) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, info.index), "cannot read the GPU's properties");
  info.name = properties.name;
  info.uuid = uuid_text(properties.uuid);
  info.compute_capability = 10 * properties.major + properties.minor;
  info.problem = gpu_problem(info.compute_capability);
  info.multiprocessors = properties.multiProcessorCount;
  info.memory_bytes = properties.totalGlobalMem;
  info.bus_id = bus_id_of(info.index);
  info.memory_bandwidth = memory_bandwidth_of(info.index);
  for (int peer = 0; peer < cuda_device_count(); ++peer) {
    int reachable = 0;
    if (peer != info.index)
      check(cudaDeviceCanAccessPeer(&reachable, info.index, peer), "cannot ask for a peer");
    if (reachable != 0) info.peers.push_back(peer);
  }
  make_current(info.index);
  std::size_t free = 0;
  check(cudaMemGetInfo(&free, &info.memory_bytes), "cannot read the free memory");
  info.free_bytes = free;
}

CudaDeviceInfo info_of(int index) {
  CudaDeviceInfo info{.index = index};
  try {
    look_at(info);
  } catch (const DeviceError& error) {
    if (info.problem.empty()) info.problem = error.what();
  }
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

std::string bus_id_of(int index) {
  char bus_id[32] = {};
  check(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, index), "cannot read the GPU's bus id");
  std::ranges::transform(std::string_view(bus_id), bus_id,
                         [](char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c; });
  return bus_id;
}

std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

std::vector<CudaDeviceInfo> list_cuda_devices() {
  std::vector<CudaDeviceInfo> devices;
  const int count = cuda_device_count();
  int current = 0;
  if (count > 0) check(cudaGetDevice(&current), "cannot tell the current device");
  for (int index = 0; index < count; ++index) devices.push_back(info_of(index));
  // Where that cannot be used, nobody has used it.
  if (count > 0 && cudaSetDevice(current) != cudaSuccess) cudaGetLastError();
  return devices;
}

CudaVersions list_cuda_versions() {
  CudaVersions versions{.driver_release = driver_release(read_text("/proc/driver/nvidia/version")),
                        .gemm_library = gemm_library(),
                        .dnn_library = dnn_library()};
  check(cudaDriverGetVersion(&versions.driver), "cannot read the driver's version");
  check(cudaRuntimeGetVersion(&versions.runtime), "cannot read CUDA's version");
  return versions;
}

}  // namespace lockstep::kernels

extern "C" LOCKSTEP_API const lockstep::kernels::CudaModule* lockstep_cuda_module() {
  using namespace lockstep::kernels;
  static const CudaModule module{.identity = cuda_module_identity(),
                                 .make_device = open_cuda_device,
                                 .describe_device = describe_cuda_device,
                                 .device_count = cuda_device_count,
                                 .devices = list_cuda_devices,
                                 .versions = list_cuda_versions};
  return &module;
}
