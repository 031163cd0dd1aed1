#pragma once

#include <cstddef>
#include <cstdint>

#include "tests/simgpu/engine/device_calls.h"

namespace simgpu {

/// reinterpret_cast to what is loaded or stored at once. A GPU faults where the address is no multiple of the
/// type's alignment; the host's processor would mostly not.
template <typename To, typename From>
To* aligned_cast(From* from, Site site = Site::here()) {
  if (reinterpret_cast<std::uintptr_t>(from) % alignof(To) != 0) misaligned_access(from, alignof(To), site);
  return reinterpret_cast<To*>(from);
}

}  // namespace simgpu
