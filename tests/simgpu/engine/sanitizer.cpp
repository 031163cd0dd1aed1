#include "tests/simgpu/engine/sanitizer.h"

// Weak: null where the sanitizer's runtime is not loaded.
#define WEAK __attribute__((weak))
extern "C" {
WEAK void __sanitizer_start_switch_fiber(void** fake_stack_save, const void* bottom, std::size_t size);
WEAK void __sanitizer_finish_switch_fiber(void* fake_stack_save, const void** bottom_old,
                                          std::size_t* size_old);
WEAK void __asan_poison_memory_region(const volatile void* address, std::size_t size);
WEAK void __asan_unpoison_memory_region(const volatile void* address, std::size_t size);
WEAK void* __tsan_create_fiber(unsigned flags);
WEAK void __tsan_destroy_fiber(void* fiber);
WEAK void* __tsan_get_current_fiber();
WEAK void __tsan_switch_to_fiber(void* fiber, unsigned flags);
WEAK void __tsan_acquire(void* address);
WEAK void __tsan_release(void* address);
}
#undef WEAK

namespace simgpu::sanitizer {

const Present present{__asan_poison_memory_region != nullptr, __tsan_create_fiber != nullptr};

namespace calls {

void leave_stack(void** fake, const std::byte* bottom, std::size_t bytes) {
  __sanitizer_start_switch_fiber(fake, bottom, bytes);
}
void enter_stack(void* fake, const std::byte** bottom, std::size_t* bytes) {
  const void* left = nullptr;
  std::size_t left_bytes = 0;
  __sanitizer_finish_switch_fiber(fake, &left, &left_bytes);
  if (bottom) *bottom = static_cast<const std::byte*>(left);
  if (bytes) *bytes = left_bytes;
}

void poison(const void* address, std::size_t bytes) {
  __asan_poison_memory_region(address, bytes);
}
void unpoison(const void* address, std::size_t bytes) {
  __asan_unpoison_memory_region(address, bytes);
}

void* create_fiber() {
  return __tsan_create_fiber(0);
}
void destroy_fiber(void* fiber) {
  __tsan_destroy_fiber(fiber);
}
void* current_fiber() {
  return __tsan_get_current_fiber();
}
void become_fiber(void* fiber) {
  constexpr unsigned no_synchronisation = 1;  // __tsan_switch_to_fiber_no_sync
  __tsan_switch_to_fiber(fiber, no_synchronisation);
}

void release(void* token) {
  __tsan_release(token);
}
void acquire(void* token) {
  __tsan_acquire(token);
}

}  // namespace calls
}  // namespace simgpu::sanitizer
