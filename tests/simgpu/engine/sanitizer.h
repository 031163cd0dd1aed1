#pragma once

#include <cstddef>

/// Calls into AddressSanitizer and ThreadSanitizer, which do nothing where the program has none: the engine
/// is compiled without -fsanitize once for all (its own bookkeeping is no part of the program under test) and
/// finds out when it is loaded.
namespace simgpu::sanitizer {

/// Which runtimes the process has.
struct Present {
  bool address;
  bool thread;
};
__attribute__((visibility("hidden"))) extern const Present present;

namespace calls {
void leave_stack(void** fake, const std::byte* bottom, std::size_t bytes);
void enter_stack(void* fake, const std::byte** bottom, std::size_t* bytes);
void poison(const void* address, std::size_t bytes);
void unpoison(const void* address, std::size_t bytes);
void* create_fiber();
void destroy_fiber(void* fiber);
void* current_fiber();
void become_fiber(void* fiber);
void release(void* token);
void acquire(void* token);
}  // namespace calls

/// Tells AddressSanitizer that the stack [bottom, bottom + bytes) is about to be switched to. `fake` keeps
/// what it knows of the stack that is left; null when that one is never entered again.
inline void leave_stack(void** fake, const std::byte* bottom, std::size_t bytes) {
  if (present.address) calls::leave_stack(fake, bottom, bytes);
}
/// After the switch. Tells the bounds of the stack that was left, unless null is given.
inline void enter_stack(void* fake, const std::byte** bottom, std::size_t* bytes) {
  if (present.address) calls::enter_stack(fake, bottom, bytes);
}

/// Bytes that nobody may touch, until they are allowed again.
inline void poison(const void* address, std::size_t bytes) {
  if (present.address) calls::poison(address, bytes);
}
inline void unpoison(const void* address, std::size_t bytes) {
  if (present.address) calls::unpoison(address, bytes);
}

/// ThreadSanitizer's idea of a CUDA thread.
inline void* create_fiber() {
  return present.thread ? calls::create_fiber() : nullptr;
}
inline void destroy_fiber(void* fiber) {
  if (fiber) calls::destroy_fiber(fiber);
}
inline void* current_fiber() {
  return present.thread ? calls::current_fiber() : nullptr;
}
/// From here on the calling thread counts as `fiber`; the switch itself orders nothing.
inline void become_fiber(void* fiber) {
  if (fiber) calls::become_fiber(fiber);
}

/// What was done before a release of a token is seen by whoever acquires the token.
inline void release(void* token) {
  if (present.thread) calls::release(token);
}
inline void acquire(void* token) {
  if (present.thread) calls::acquire(token);
}

}  // namespace simgpu::sanitizer
