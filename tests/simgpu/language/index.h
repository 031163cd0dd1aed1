#pragma once

#include <vector_types.h>

// A copy in each system thread, since each runs blocks of its own. constinit and initial-exec: an access is
// one instruction, not a call.
#define SIMGPU_INDEX \
  extern constinit thread_local __attribute__((tls_model("initial-exec"), visibility("default")))
SIMGPU_INDEX uint3 threadIdx;
SIMGPU_INDEX uint3 blockIdx;
SIMGPU_INDEX dim3 blockDim;
SIMGPU_INDEX dim3 gridDim;
#undef SIMGPU_INDEX

inline constexpr int warpSize = 32;
