#include "tests/simgpu/machine/poison.h"

// The simulator itself is built without sanitizers; the program that it serves may bring these.
extern "C" {
__attribute__((weak)) void __asan_poison_memory_region(const volatile void* address, std::size_t bytes);
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void* address, std::size_t bytes);
}

namespace simgpu {

void poison(std::uintptr_t begin, std::size_t bytes) {
  if (__asan_poison_memory_region) __asan_poison_memory_region(reinterpret_cast<void*>(begin), bytes);
}

void unpoison(std::uintptr_t begin, std::size_t bytes) {
  if (__asan_unpoison_memory_region) __asan_unpoison_memory_region(reinterpret_cast<void*>(begin), bytes);
}

}  // namespace simgpu
