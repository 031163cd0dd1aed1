#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "tests/simgpu/machine/origin.h"

namespace simgpu {

/// One allocation.
struct Block {
  enum class Kind { device, pinned, registered };

  Kind kind;
  std::uintptr_t begin;
  std::size_t bytes;
  int device;
  unsigned flags;
  Origin allocated;
  std::string freed_by = {};                             ///< by cudaFreeAsync, which may be still to come
  std::map<std::uintptr_t, std::uintptr_t> ranges = {};  ///< begin and end of buffers inside it

  std::uintptr_t end() const { return begin + bytes; }

  /// Where a buffer that is reached by this pointer ends.
  std::uintptr_t end_of_buffer(std::uintptr_t address) const;

  /// "256 bytes of device 0 (0x2000…, allocated at x.cpp:3)"
  std::string describe() const;
};

std::string hex(std::uintptr_t address);

}  // namespace simgpu
