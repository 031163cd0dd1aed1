#include "tests/simgpu/cudart/properties.h"

#include <cstring>

#include "tests/simgpu/engine/limits.h"

namespace simgpu {

cudaDeviceProp properties_of(const Settings& settings, int device) {
  cudaDeviceProp p{};
  const int number = settings.physical_number(device);
  const limits::OfMultiprocessor multiprocessor = limits::of_multiprocessor(settings.capability);
  std::strncpy(p.name, "simulated", sizeof p.name - 1);
  p.uuid.bytes[0] = 0x51;
  p.uuid.bytes[15] = static_cast<char>(number);
  p.totalGlobalMem = settings.device_bytes;
  p.sharedMemPerBlock = limits::shared_bytes;
  p.sharedMemPerBlockOptin = multiprocessor.most_shared_bytes();
  p.sharedMemPerMultiprocessor = multiprocessor.shared_bytes;
  p.reservedSharedMemPerBlock = multiprocessor.reserved_bytes;
  p.regsPerBlock = 65536;
  p.regsPerMultiprocessor = 65536;
  p.warpSize = 32;
  p.memPitch = 0x7FFFFFFF;
  p.maxThreadsPerBlock = 1024;
  p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
  p.maxThreadsDim[2] = 64;
  p.maxGridSize[0] = 0x7FFFFFFF;
  p.maxGridSize[1] = p.maxGridSize[2] = 65535;
  p.maxThreadsPerMultiProcessor = multiprocessor.threads;
  p.maxBlocksPerMultiProcessor = multiprocessor.blocks;
  p.totalConstMem = 64 << 10;
  p.major = settings.capability / 10;
  p.minor = settings.capability % 10;
  p.textureAlignment = 512;
  p.multiProcessorCount = 4;
  p.l2CacheSize = 1 << 20;
  p.memoryBusWidth = 512;
  p.asyncEngineCount = 2;
  p.concurrentKernels = 1;
  p.canMapHostMemory = 1;
  p.unifiedAddressing = 1;
  p.canUseHostPointerForRegisteredMem = 1;
  p.hostRegisterSupported = 1;
  p.streamPrioritiesSupported = 1;
  p.memoryPoolsSupported = 1;
  p.pciBusID = number + 1;
  return p;
}

std::optional<int> attribute_of(const cudaDeviceProp& p, cudaDeviceAttr attribute) {
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      return p.maxThreadsPerBlock;
    case cudaDevAttrMaxBlockDimX:
      return p.maxThreadsDim[0];
    case cudaDevAttrMaxBlockDimY:
      return p.maxThreadsDim[1];
    case cudaDevAttrMaxBlockDimZ:
      return p.maxThreadsDim[2];
    case cudaDevAttrMaxGridDimX:
      return p.maxGridSize[0];
    case cudaDevAttrMaxGridDimY:
      return p.maxGridSize[1];
    case cudaDevAttrMaxGridDimZ:
      return p.maxGridSize[2];
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return static_cast<int>(p.sharedMemPerBlock);
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return static_cast<int>(p.sharedMemPerBlockOptin);
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return static_cast<int>(p.sharedMemPerMultiprocessor);
    case cudaDevAttrReservedSharedMemoryPerBlock:
      return static_cast<int>(p.reservedSharedMemPerBlock);
    case cudaDevAttrWarpSize:
      return p.warpSize;
    case cudaDevAttrMaxRegistersPerBlock:
      return p.regsPerBlock;
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      return p.regsPerMultiprocessor;
    case cudaDevAttrClockRate:
      return 1'000'000;  // kHz
    case cudaDevAttrMemoryClockRate:
      return 1'000'000;
    case cudaDevAttrGlobalMemoryBusWidth:
      return p.memoryBusWidth;
    case cudaDevAttrMultiProcessorCount:
      return p.multiProcessorCount;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return p.maxThreadsPerMultiProcessor;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      return p.maxBlocksPerMultiProcessor;
    case cudaDevAttrL2CacheSize:
      return p.l2CacheSize;
    case cudaDevAttrConcurrentKernels:
      return p.concurrentKernels;
    case cudaDevAttrAsyncEngineCount:
      return p.asyncEngineCount;
    case cudaDevAttrUnifiedAddressing:
      return p.unifiedAddressing;
    case cudaDevAttrComputeCapabilityMajor:
      return p.major;
    case cudaDevAttrComputeCapabilityMinor:
      return p.minor;
    case cudaDevAttrMemoryPoolsSupported:
      return p.memoryPoolsSupported;
    case cudaDevAttrHostRegisterSupported:
      return p.hostRegisterSupported;
    case cudaDevAttrStreamPrioritiesSupported:
      return p.streamPrioritiesSupported;
    case cudaDevAttrPciBusId:
      return p.pciBusID;
    case cudaDevAttrPciDeviceId:
      return p.pciDeviceID;
    case cudaDevAttrPciDomainId:
      return p.pciDomainID;
    case cudaDevAttrComputeMode:
    case cudaDevAttrIntegrated:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrCooperativeLaunch:
      return 0;
    default:
      return std::nullopt;
  }
}

}  // namespace simgpu
