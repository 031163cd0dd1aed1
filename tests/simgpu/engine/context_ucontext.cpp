#include <ucontext.h>

#include <cstdint>
#include <new>

#include "tests/simgpu/engine/context.h"

namespace simgpu {
namespace {

/// What a fresh stack starts with; it lies at the stack's bottom.
struct Start {
  ucontext_t context;
  void (*entry)(void*);
  void* argument;
};

// makecontext hands over ints only.
void enter(unsigned high, unsigned low) {
  const auto address = (std::uint64_t{high} << 32) | low;
  const auto* start = reinterpret_cast<const Start*>(static_cast<std::uintptr_t>(address));
  start->entry(start->argument);
}

}  // namespace

Context make_context(std::byte* bottom, std::byte* top, void (*entry)(void*), void* argument) {
  auto* start = new (bottom) Start{{}, entry, argument};
  getcontext(&start->context);
  auto* low = reinterpret_cast<std::byte*>(start + 1);
  start->context.uc_stack.ss_sp = low;
  start->context.uc_stack.ss_size = static_cast<std::size_t>(top - low);
  start->context.uc_link = nullptr;
  const std::uint64_t address = reinterpret_cast<std::uintptr_t>(start);
  makecontext(&start->context, reinterpret_cast<void (*)()>(&enter), 2, static_cast<unsigned>(address >> 32),
              static_cast<unsigned>(address));
  return {&start->context};
}

void switch_context(Context& from, Context to) {
  ucontext_t here;  // lies on the stack that is left, so it lives as long as that is parked
  from.stack_pointer = &here;
  swapcontext(&here, static_cast<ucontext_t*>(to.stack_pointer));
}

}  // namespace simgpu
