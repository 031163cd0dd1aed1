#pragma once

#include <cstddef>

namespace simgpu {

/// Where a stack was left. Valid until it is switched to.
struct Context {
  void* stack_pointer = nullptr;
};

/// A context that calls entry(argument) on the stack below `top`; entry must never return.
Context make_context(std::byte* bottom, std::byte* top, void (*entry)(void*), void* argument);

/// Leaves the running stack at `from` and goes on at `to`. Returns when somebody switches to `from`. The name
/// is for the assembler.
__attribute__((visibility("hidden"))) void switch_context(Context& from,
                                                          Context to) asm("simgpu_switch_context");

}  // namespace simgpu
