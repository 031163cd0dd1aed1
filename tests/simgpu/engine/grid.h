#pragma once

#include <vector_types.h>

#include <cstddef>
#include <string>

#include "tests/simgpu/engine/limits.h"

namespace simgpu {

/// How a kernel was launched.
struct Grid {
  dim3 blocks;
  dim3 threads;
  std::size_t shared_bytes = 0;  ///< dynamic shared memory of each block
  std::string name;              ///< of the kernel, for reports
  std::string site = {};         ///< "file.cu:12" of the launch
  /// Static shared memory that this leaves to each block.
  std::size_t static_bytes = shared_bytes < limits::shared_bytes ? limits::shared_bytes - shared_bytes : 0;
};

inline std::size_t count(const dim3& extent) {
  return std::size_t{extent.x} * extent.y * extent.z;
}

}  // namespace simgpu
