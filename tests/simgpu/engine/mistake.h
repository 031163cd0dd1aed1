#pragma once

#include <driver_types.h>

#include <string>
#include <utility>

namespace simgpu {

/// A mistake found on a CUDA thread's stack. It is thrown there and reported from the host's stack, where a
/// handler may throw further and the process may exit.
struct KernelMistake {
  std::string kind;
  std::string text;
};

/// What a GPU itself finds in a kernel, thrown there too: it is printed, the grid ends, and `error` stays.
struct KernelFault {
  cudaError_t error;
  std::string text;
};

/// Throws it with the running kernel, block and thread put before `text`.
[[noreturn]] void kernel_mistake(std::string kind, const std::string& text);

}  // namespace simgpu
