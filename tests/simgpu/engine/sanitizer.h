#pragma once

#include <cstddef>

/// Calls into AddressSanitizer and ThreadSanitizer, which do nothing where the program has none: the engine
/// is compiled without -fsanitize once for all (its own bookkeeping is no part of the program under test) and
/// finds out when it is loaded.
namespace simgpu::sanitizer {

bool has_address();
bool has_thread();

/// Tells AddressSanitizer that the stack [bottom, bottom + bytes) is about to be switched to. `fake` keeps
/// what it knows of the stack that is left; null when that one is never entered again.
void leave_stack(void** fake, const std::byte* bottom, std::size_t bytes);
/// After the switch. Tells the bounds of the stack that was left, unless null is given.
void enter_stack(void* fake, const std::byte** bottom, std::size_t* bytes);

/// Bytes that nobody may touch, until they are freed or forgiven.
void poison(const void* address, std::size_t bytes);
void unpoison(const void* address, std::size_t bytes);

/// ThreadSanitizer's idea of a CUDA thread.
void* create_fiber();
void destroy_fiber(void* fiber);
void* current_fiber();
/// From here on the calling thread counts as `fiber`; the switch itself orders nothing.
void become_fiber(void* fiber);

/// What was done before a release of a token is seen by whoever acquires the token.
void release(void* token);
void acquire(void* token);

}  // namespace simgpu::sanitizer
