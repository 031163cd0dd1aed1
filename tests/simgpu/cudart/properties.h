#pragma once

#include <cuda_runtime_api.h>

#include <optional>

#include "tests/simgpu/machine/settings.h"

namespace simgpu {

/// A device of compute capability 9.0 with few multiprocessors, so that kernels whose grid follows their
/// number stay small. The limits are those of that capability (CUDA programming guide, "Compute
/// capabilities").
cudaDeviceProp properties_of(const Settings& settings, int device);

/// Empty: an attribute that is not simulated.
std::optional<int> attribute_of(const cudaDeviceProp& properties, cudaDeviceAttr attribute);

}  // namespace simgpu
