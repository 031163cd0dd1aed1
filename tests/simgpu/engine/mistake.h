#pragma once

#include <string>
#include <utility>

namespace simgpu {

/// A mistake found on a CUDA thread's stack. It is thrown there and reported from the host's stack, where a
/// handler may throw further and the process may exit.
struct KernelMistake {
  std::string kind;
  std::string text;
};

/// Throws it with the running kernel, block and thread put before `text`.
[[noreturn]] void kernel_mistake(std::string kind, const std::string& text);

}  // namespace simgpu
