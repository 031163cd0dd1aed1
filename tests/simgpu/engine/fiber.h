#pragma once

#include "tests/simgpu/engine/sanitizer.h"
#include "tests/simgpu/engine/stack.h"

namespace simgpu {

/// Something that runs and can be left and entered again: a fiber or the host's own stack.
struct Place {
  Context context;
  const std::byte* bottom = nullptr;  ///< of its stack; the bounds matter to AddressSanitizer only
  std::size_t bytes = 0;
  void* fake = nullptr;       ///< what AddressSanitizer keeps of a stack that was left
  void* sanitized = nullptr;  ///< ThreadSanitizer's fiber
};

/// Leaves `from`, for ever if it says so, and goes on in `to`.
inline void switch_places(Place& from, Place& to, bool for_ever) {
  sanitizer::leave_stack(for_ever ? nullptr : &from.fake, to.bottom, to.bytes);
  sanitizer::become_fiber(to.sanitized);
  switch_context(from.context, to.context);
  sanitizer::enter_stack(from.fake, nullptr, nullptr);
}

/// A stack on which CUDA threads run.
class Fiber : public Place {
 public:
  explicit Fiber(unsigned number) : stack_(number) {
    bottom = stack_.bottom();
    bytes = Stack::bytes;
    sanitized = sanitizer::create_fiber();
  }
  ~Fiber() { sanitizer::destroy_fiber(sanitized); }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// The next switch to it calls entry(argument) from the stack's top.
  void restart(void (*entry)(void*), void* argument) {
    context = make_context(stack_.bottom(), stack_.top(), entry, argument);
  }

  /// After its frames were given up without a return from them.
  void forget_frames() {
    sanitizer::unpoison(stack_.bottom(), Stack::bytes);
    if (!sanitized) return;
    sanitizer::destroy_fiber(sanitized);
    sanitized = sanitizer::create_fiber();
  }

 private:
  Stack stack_;
};

}  // namespace simgpu
