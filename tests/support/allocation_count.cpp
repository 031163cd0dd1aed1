#include "tests/support/allocation_count.h"

#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

thread_local bool counting = false;
thread_local int allocations = 0;
thread_local std::int64_t live_blocks = 0;

/// The libraries never call us, so a frame of theirs on the stack is the one that asks.
bool asked_by_library() {
  void* callers[24];
  const int depth = ::backtrace(callers, 24);
  for (int i = 0; i < depth; ++i) {
    Dl_info info;
    if (::dladdr(callers[i], &info) == 0 || info.dli_fname == nullptr) continue;
    if (std::strstr(info.dli_fname, "libdnnl") != nullptr ||
        std::strstr(info.dli_fname, "libgomp") != nullptr) {
      return true;
    }
  }
  return false;
}

void* allocate(std::size_t bytes, std::size_t alignment) noexcept {
  if (counting) {
    counting = false;  // looking for the caller may allocate
    if (!asked_by_library()) ++allocations;
    ++live_blocks;
    counting = true;
  }
  const std::size_t size = (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  return std::aligned_alloc(alignment, size);
}

void release(void* memory) noexcept {
  if (counting && memory != nullptr) --live_blocks;
  std::free(memory);
}

void* allocate_or_throw(std::size_t bytes, std::size_t alignment = alignof(std::max_align_t)) {
  if (void* memory = allocate(bytes, alignment)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) {
  return allocate_or_throw(bytes);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, alignof(std::max_align_t));
}
void* operator new[](std::size_t bytes) {
  return allocate_or_throw(bytes);
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, alignof(std::max_align_t));
}
void operator delete(void* memory) noexcept {
  release(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  release(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  release(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  release(memory);
}
void operator delete[](void* memory) noexcept {
  release(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  release(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  release(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  release(memory);
}

namespace lockstep::tests {

AllocationCount::AllocationCount() {
  allocations = 0;
  live_blocks = 0;
  counting = true;
}

AllocationCount::~AllocationCount() {
  counting = false;
}

int AllocationCount::value() const {
  return allocations;
}

std::int64_t AllocationCount::growth() const {
  return live_blocks;
}

}  // namespace lockstep::tests
