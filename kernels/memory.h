#pragma once

#include <cstddef>

namespace lockstep::kernels {

/// Memory of a device or of the host, aligned to cache lines (64 bytes) and zeroed; freed with the object.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual void* data() const = 0;
  virtual std::size_t bytes() const = 0;
};

}  // namespace lockstep::kernels
