#include <array>
#include <cstdint>
#include <cstring>

#include "tests/simgpu/engine/context.h"

// The registers that a call keeps (AAPCS64): x19 to x30 and the low halves of v8 to v15.
extern "C" void simgpu_enter_stack();

asm(R"(
  .text
  .p2align 4
  .globl simgpu_switch_context
  .hidden simgpu_switch_context
  .type simgpu_switch_context, %function
simgpu_switch_context:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
  .size simgpu_switch_context, . - simgpu_switch_context

  .p2align 4
  .globl simgpu_enter_stack
  .hidden simgpu_enter_stack
  .type simgpu_enter_stack, %function
simgpu_enter_stack:
  .cfi_startproc
  .cfi_undefined x30
  mov x0, x20
  blr x19
  brk #1
  .cfi_endproc
  .size simgpu_enter_stack, . - simgpu_enter_stack
)");

namespace simgpu {

Context make_context(std::byte* /*bottom*/, std::byte* top, void (*entry)(void*), void* argument) {
  std::array<std::uintptr_t, 20> frame{};
  frame[0] = reinterpret_cast<std::uintptr_t>(entry);                 // x19
  frame[1] = reinterpret_cast<std::uintptr_t>(argument);              // x20
  frame[11] = reinterpret_cast<std::uintptr_t>(&simgpu_enter_stack);  // x30
  const auto start = (reinterpret_cast<std::uintptr_t>(top) & ~std::uintptr_t{15}) - sizeof(frame);
  std::memcpy(reinterpret_cast<void*>(start), frame.data(), sizeof(frame));
  return {reinterpret_cast<void*>(start)};
}

}  // namespace simgpu
