#pragma once

#include <vector_types.h>

#include <cstddef>
#include <string>

namespace simgpu {

/// How a kernel was launched.
struct Grid {
  dim3 blocks;
  dim3 threads;
  std::size_t shared_bytes = 0;  ///< dynamic shared memory of each block
  std::string name;              ///< of the kernel, for reports
  std::string site = {};         ///< "file.cu:12" of the launch
};

inline std::size_t count(const dim3& extent) {
  return std::size_t{extent.x} * extent.y * extent.z;
}

}  // namespace simgpu
