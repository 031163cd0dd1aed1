// Devices and what they are able to.

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/simgpu/cudart/properties.h"
#include "tests/simgpu/machine/call.h"

using namespace simgpu;

namespace {

constexpr int cuda_version = CUDART_VERSION;

void require_device(const Machine& m, int device) {
  require(device >= 0 && device < m.settings.devices, cudaErrorInvalidDevice);
}

}  // namespace

cudaError_t cudaGetDeviceCount(int* count) {
  if (count) *count = 0;
  return call({__func__, cudaErrorInitializationError, caller()}, [&](Machine& m, Lock&, const Origin&) {
    require(count != nullptr, cudaErrorInvalidValue);
    *count = m.settings.devices;
  });
}

cudaError_t cudaSetDevice(int device) {
  return call({__func__, cudaErrorDevicesUnavailable, caller()}, [&](Machine& m, Lock&, const Origin&) {
    require_device(m, device);
    require(m.settings.physical_number(device) != m.settings.held, cudaErrorDevicesUnavailable);
    running().device = device;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return call({__func__, cudaErrorInitializationError, caller()}, [&](Machine&, Lock&, const Origin&) {
    require(device != nullptr, cudaErrorInvalidValue);
    *device = running().device;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* prop, int device) {
  return call({__func__, cudaErrorInitializationError, caller()}, [&](Machine& m, Lock&, const Origin&) {
    require(prop != nullptr, cudaErrorInvalidValue);
    require_device(m, device);
    *prop = properties_of(m.settings, device);
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attr, int device) {
  return call({__func__, cudaErrorInvalidValue, caller()}, [&](Machine& m, Lock&, const Origin&) {
    require(value != nullptr, cudaErrorInvalidValue);
    require_device(m, device);
    const auto known = attribute_of(properties_of(m.settings, device), attr);
    require(known.has_value(), cudaErrorInvalidValue);
    *value = *known;
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* pciBusId, int len, int device) {
  return call({__func__, cudaErrorInvalidValue, caller()}, [&](Machine& m, Lock&, const Origin&) {
    constexpr int shortest = 13;
    require(pciBusId != nullptr && len >= shortest, cudaErrorInvalidValue);
    require_device(m, device);
    const cudaDeviceProp prop = properties_of(m.settings, device);
    std::snprintf(pciBusId, static_cast<std::size_t>(len), "%04x:%02x:%02x.0", prop.pciDomainID,
                  prop.pciBusID, prop.pciDeviceID);
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* canAccessPeer, int device, int peerDevice) {
  return call({__func__, cudaErrorInvalidDevice, caller()}, [&](Machine& m, Lock&, const Origin&) {
    require(canAccessPeer != nullptr, cudaErrorInvalidValue);
    require_device(m, device);
    require_device(m, peerDevice);
    *canAccessPeer = 0;
  });
}

cudaError_t cudaDriverGetVersion(int* driverVersion) {
  return call({__func__, cudaErrorInvalidValue, caller()}, [&](Machine&, Lock&, const Origin&) {
    require(driverVersion != nullptr, cudaErrorInvalidValue);
    *driverVersion = cuda_version;
  });
}

cudaError_t cudaRuntimeGetVersion(int* runtimeVersion) {
  return call({__func__, cudaErrorInvalidValue, caller()}, [&](Machine&, Lock&, const Origin&) {
    require(runtimeVersion != nullptr, cudaErrorInvalidValue);
    *runtimeVersion = cuda_version;
  });
}

cudaError_t cudaSetDeviceFlags(unsigned int flags) {
  return call({__func__, cudaErrorInvalidValue, caller()}, [&](Machine&, Lock&, const Origin&) {
    require((flags & ~static_cast<unsigned>(cudaDeviceMask)) == 0, cudaErrorInvalidValue);
  });
}
