#pragma once

#include <cstdint>

namespace simgpu {

/// Bytes that a node reads, or reads and writes.
struct Use {
  std::uintptr_t begin;
  std::uintptr_t end;
  bool writes;
};

}  // namespace simgpu
