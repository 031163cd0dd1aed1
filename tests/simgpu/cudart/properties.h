#pragma once

#include <cuda_runtime_api.h>

#include <optional>

#include "tests/simgpu/machine/settings.h"

namespace simgpu {

/// A device with few multiprocessors, so that kernels whose grid follows their number stay small. What one of
/// them has is that of the settings' compute capability; the other limits are alike from 7.0 on.
cudaDeviceProp properties_of(const Settings& settings, int device);

/// Empty: an attribute that is not simulated.
std::optional<int> attribute_of(const cudaDeviceProp& properties, cudaDeviceAttr attribute);

}  // namespace simgpu
