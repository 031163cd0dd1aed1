#pragma once

#include <cuda_runtime_api.h>

namespace simgpu {

/// The enumerator's name, null when there is none.
const char* name_of(cudaError_t error);

}  // namespace simgpu
