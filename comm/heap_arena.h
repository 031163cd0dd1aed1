#pragma once

#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "comm/arena.h"

namespace lockstep::comm {

/// An arena in this process's memory. Copies of `memory` keep it longer than the arena.
class HeapArena final : public Arena {
 public:
  using Memory = std::shared_ptr<std::byte>;

  HeapArena(const void* owner, std::uint32_t number, DType dtype, std::int64_t elements, Memory memory)
      : Arena({owner, number}, memory.get(), dtype, elements), memory_(std::move(memory)) {}

  static Memory allocate(DType dtype, std::int64_t elements) {
    constexpr std::align_val_t alignment{cache_line};
    const std::size_t bytes = static_cast<std::size_t>(elements) * size_of(dtype);
    Memory memory(static_cast<std::byte*>(::operator new(bytes, alignment)),
                  [](std::byte* address) { ::operator delete(address, alignment); });
    std::memset(memory.get(), 0, bytes);
    return memory;
  }

 private:
  Memory memory_;
};

}  // namespace lockstep::comm
