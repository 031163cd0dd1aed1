// Attributes of kernels, and how many blocks of them fit on a multiprocessor.

#include <algorithm>

#include "tests/simgpu/cudart/properties.h"
#include "tests/simgpu/machine/call.h"

using namespace simgpu;

namespace {

/// Registers and static shared memory are not known here: what ptxas says is checked in the build with nvcc,
/// and static arrays when the kernel runs.
int blocks_that_fit(const Machine& m, int block_size, std::size_t shared_bytes) {
  const cudaDeviceProp device = properties_of(m.settings, running().device);
  require(block_size > 0, cudaErrorInvalidValue);
  if (block_size > device.maxThreadsPerBlock || shared_bytes > device.sharedMemPerBlockOptin) return 0;
  const std::size_t shared = shared_bytes + device.reservedSharedMemPerBlock;
  const auto by_shared = static_cast<int>(device.sharedMemPerMultiprocessor / shared);
  return std::min(
      {device.maxThreadsPerMultiProcessor / block_size, device.maxBlocksPerMultiProcessor, by_shared});
}

}  // namespace

cudaError_t cudaFuncSetAttribute(const void* func, cudaFuncAttribute attr, int value) {
  return call({__func__, cudaErrorInvalidValue, caller()}, [&](Machine& m, Lock&, const Origin&) {
    require(func != nullptr, cudaErrorInvalidDeviceFunction);
    const cudaDeviceProp device = properties_of(m.settings, running().device);
    if (attr == cudaFuncAttributeMaxDynamicSharedMemorySize) {
      require(value >= 0 && static_cast<std::size_t>(value) <= device.sharedMemPerBlockOptin,
              cudaErrorInvalidValue);
      m.dynamic_shared_bytes[func] = value;
    } else {
      require(attr == cudaFuncAttributePreferredSharedMemoryCarveout, cudaErrorInvalidValue);
    }
  });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attr, const void* func) {
  return call({__func__, cudaErrorInvalidDeviceFunction, caller()}, [&](Machine& m, Lock&, const Origin&) {
    require(attr != nullptr && func != nullptr, cudaErrorInvalidValue);
    const cudaDeviceProp device = properties_of(m.settings, running().device);
    *attr = {};
    attr->maxThreadsPerBlock = device.maxThreadsPerBlock;
    attr->binaryVersion = device.major * 10 + device.minor;
    attr->ptxVersion = m.settings.code > 0 ? m.settings.code : attr->binaryVersion;
    const auto chosen = m.dynamic_shared_bytes.find(func);
    attr->maxDynamicSharedSizeBytes =
        chosen != m.dynamic_shared_bytes.end() ? chosen->second : static_cast<int>(device.sharedMemPerBlock);
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* numBlocks, const void* func, int blockSize,
                                                          std::size_t dynamicSMemSize) {
  return call({__func__, cudaErrorInvalidDeviceFunction, caller()}, [&](Machine& m, Lock&, const Origin&) {
    require(numBlocks != nullptr && func != nullptr, cudaErrorInvalidValue);
    *numBlocks = blocks_that_fit(m, blockSize, dynamicSMemSize);
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* numBlocks, const void* func,
                                                                   int blockSize, std::size_t dynamicSMemSize,
                                                                   unsigned int) {
  return call({__func__, cudaErrorInvalidDeviceFunction, caller()}, [&](Machine& m, Lock&, const Origin&) {
    require(numBlocks != nullptr && func != nullptr, cudaErrorInvalidValue);
    *numBlocks = blocks_that_fit(m, blockSize, dynamicSMemSize);
  });
}
