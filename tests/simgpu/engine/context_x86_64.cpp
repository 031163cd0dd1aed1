#include <array>
#include <cstdint>
#include <cstring>

#include "tests/simgpu/engine/context.h"

// The registers that a call keeps in System V's ABI; kernels never change the floating point control words.
// It ends in `ret`, since all threads are left at the same call: the processor's stack of return addresses
// predicts it right.
extern "C" void simgpu_enter_stack();

asm(R"(
  .text
  .p2align 4
  .globl simgpu_switch_context
  .hidden simgpu_switch_context
  .type simgpu_switch_context, @function
simgpu_switch_context:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size simgpu_switch_context, . - simgpu_switch_context

  .p2align 4
  .globl simgpu_enter_stack
  .hidden simgpu_enter_stack
  .type simgpu_enter_stack, @function
simgpu_enter_stack:
  .cfi_startproc
  .cfi_undefined rip
  movq %r13, %rdi
  callq *%r12
  ud2
  .cfi_endproc
  .size simgpu_enter_stack, . - simgpu_enter_stack
)");

namespace simgpu {

Context make_context(std::byte* /*bottom*/, std::byte* top, void (*entry)(void*), void* argument) {
  // What simgpu_switch_context pops: r15 r14 r13 r12 rbx rbp, then the address to return to.
  const std::array<std::uintptr_t, 7> frame{
      0, 0, reinterpret_cast<std::uintptr_t>(argument),           reinterpret_cast<std::uintptr_t>(entry),
      0, 0, reinterpret_cast<std::uintptr_t>(&simgpu_enter_stack)};
  const auto aligned = reinterpret_cast<std::uintptr_t>(top) & ~std::uintptr_t{15};
  const auto start = aligned - sizeof(frame);  // after the return the stack pointer is `aligned`
  std::memcpy(reinterpret_cast<void*>(start), frame.data(), sizeof(frame));
  return {reinterpret_cast<void*>(start)};
}

}  // namespace simgpu
