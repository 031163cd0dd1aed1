#include "tests/simgpu/engine/exited_threads.h"

#include <cstdlib>
#include <string_view>

namespace simgpu {

bool exited_threads_allowed() {
  const char* text = std::getenv("SIMGPU_EXITED_THREADS");
  return text && std::string_view(text) == "allowed";
}

}  // namespace simgpu
