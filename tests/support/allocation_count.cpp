#include "tests/support/allocation_count.h"

#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

namespace {

thread_local bool counting = false;
thread_local bool looking = false;  // for who asks, which may allocate
thread_local int allocations = 0;
thread_local std::int64_t live_blocks = 0;
std::atomic<int> counters{0};  // that live, of all threads
std::atomic<int> team_allocations{0};

bool is_in(const Dl_info& frame, const char* library) {
  return frame.dli_fname != nullptr && std::strstr(frame.dli_fname, library) != nullptr;
}

/// It asks for its caller. An instance of a template in this program may serve a library.
bool is_of_standard_library(const Dl_info& frame) {
  const std::string_view symbol = frame.dli_sname == nullptr ? "" : frame.dli_sname;
  return is_in(frame, "libstdc++") || symbol.starts_with("_ZNSt") || symbol.starts_with("_ZNKSt") ||
         symbol.starts_with("_ZSt");
}

/// Who called operator new, which returns to `caller`.
struct Origin {
  bool is_library = false;  ///< oneDNN or OpenMP, not a body of ours that they call
  bool is_in_team = false;  ///< in a parallel region
};

Origin origin_of(const void* caller) {
  constexpr int deepest = 64;
  void* frames[deepest];
  const int depth = ::backtrace(frames, deepest);
  Origin origin;
  bool is_found = false;
  for (int i = static_cast<int>(std::find(frames, frames + depth, caller) - frames); i < depth; ++i) {
    Dl_info frame;
    if (::dladdr(static_cast<char*>(frames[i]) - 1, &frame) == 0) continue;
    if (is_in(frame, "libgomp")) origin.is_in_team = true;
    if (is_found || is_of_standard_library(frame)) continue;
    is_found = true;
    origin.is_library = is_in(frame, "libdnnl") || is_in(frame, "libgomp");
  }
  return origin;
}

void count(const void* caller) {
  if (looking || (!counting && counters == 0)) return;
  looking = true;
  const Origin origin = origin_of(caller);
  looking = false;
  if (counting) ++live_blocks;
  if (origin.is_library) return;
  if (counting) {
    ++allocations;
  } else if (origin.is_in_team) {
    ++team_allocations;
  }
}

void* allocate(std::size_t bytes, const void* caller,
               std::size_t alignment = alignof(std::max_align_t)) noexcept {
  count(caller);
  const std::size_t size = (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  return std::aligned_alloc(alignment, size);
}

void release(void* memory) noexcept {
  if (counting && memory != nullptr) --live_blocks;
  std::free(memory);
}

void* allocate_or_throw(std::size_t bytes, const void* caller,
                        std::size_t alignment = alignof(std::max_align_t)) {
  if (void* memory = allocate(bytes, caller, alignment)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) {
  return allocate_or_throw(bytes, __builtin_return_address(0));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, __builtin_return_address(0), static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, __builtin_return_address(0));
}
void* operator new[](std::size_t bytes) {
  return allocate_or_throw(bytes, __builtin_return_address(0));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, __builtin_return_address(0), static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, __builtin_return_address(0));
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

AllocationCount::AllocationCount() : team_allocations_before_(team_allocations) {
  allocations = 0;
  live_blocks = 0;
  ++counters;
  counting = true;
}

AllocationCount::~AllocationCount() {
  counting = false;
  --counters;
}

int AllocationCount::value() const {
  return allocations + team_allocations - team_allocations_before_;
}

std::int64_t AllocationCount::growth() const {
  return live_blocks;
}

}  // namespace lockstep::tests
