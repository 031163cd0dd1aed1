#pragma once

#include <cuda_runtime_api.h>

namespace simgpu {

/// Ends a CUDA call with this code.
struct Failure {
  cudaError_t code;
};

inline void require(bool condition, cudaError_t otherwise) {
  if (!condition) throw Failure{otherwise};
}

}  // namespace simgpu
