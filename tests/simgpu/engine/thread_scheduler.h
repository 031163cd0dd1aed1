#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "tests/simgpu/engine/device_calls.h"
#include "tests/simgpu/engine/fiber.h"
#include "tests/simgpu/engine/ready_queue.h"
#include "tests/simgpu/engine/thread_order.h"
#include "tests/simgpu/language/index.h"

namespace simgpu {

/// A CUDA thread of the running block.
struct Thread {
  Fiber* fiber = nullptr;      ///< while it is parked
  const Call* call = nullptr;  ///< what it waits in (the call lies on its stack); null: it does not wait
  std::uint32_t mask = 0;      ///< of the lanes for which it waits; 0: for the block
};

/// Runs the threads of a block, one after the other and each as far as it gets. A thread that never waits
/// costs no switch: it returns, and the same stack runs the next one. The stack of a thread that waits is
/// parked, and another one goes on with the threads that have not begun.
class ThreadScheduler {
 public:
  /// Told when a thread ends while others wait.
  using ExitHook = std::function<void(std::uint32_t thread)>;

  void begin_grid(const dim3& extent, const ThreadOrder& order);
  /// Runs a block's threads to their ends. Throws what one of them threw; the others are then given up.
  void run(const std::function<void()>& body, const ExitHook& exit_hook);

  /// Called by a thread: waits in `call` until another wakes it.
  void park(const Call& call, std::uint32_t mask) {
    Fiber& here = *running_;
    threads_[current_] = {&here, &call, mask};
    ++waiting_;
    const Next next = choose();
    if (next == Next::resume) {
      resume(here, false);
    } else {
      go_on_or_throw(next, here);
    }
    running_ = &here;
  }
  void wake(std::uint32_t thread) {
    threads_[thread].call = nullptr;
    --waiting_;
    ready_.push(thread);
  }
  /// Called by a thread: lets the others go on first.
  void yield();

  std::uint32_t current() const { return current_; }
  const Thread& thread(std::uint32_t number) const { return threads_[number]; }
  const uint3& index(std::uint32_t thread) const { return indices_[thread]; }
  std::uint32_t size() const { return count_; }
  std::uint32_t live() const { return live_; }
  bool has_exited(std::uint32_t thread) const { return (exited_[thread / 32] >> (thread % 32) & 1u) != 0; }
  /// Bits of a warp's lanes that ended or never were.
  std::uint32_t exited_lanes(std::uint32_t warp) const { return exited_[warp]; }
  ThreadOrder& order() { return order_; }
  void* sanitized_fiber(std::uint32_t thread) const { return fibers_[thread]->sanitized; }

 private:
  enum class Next { begin, resume, finish, stuck };

  static void enter(void* self);
  void loop(Fiber& self);
  void run_thread(std::uint32_t thread);
  Next choose() {
    if (!unbegun_.done() && (ready_.empty() || (order_.shuffled() && order_.pick(2) == 0)))
      return Next::begin;
    if (!ready_.empty()) return Next::resume;
    return live_ == 0 ? Next::finish : Next::stuck;
  }
  void resume(Place& from, bool for_ever) {
    const std::uint32_t thread = ready_.take(static_cast<std::uint32_t>(order_.pick(ready_.size())));
    make_current(thread);
    // The stacks of a block are more than fits into the nearest cache.
    if (const Fiber* next = threads_[ready_.peek(0)].fiber) __builtin_prefetch(next->context.stack_pointer);
    switch_places(from, *threads_[thread].fiber, for_ever);
  }
  /// Does what `next` says; not stuck.
  void go_on(Next next, Place& from, bool for_ever);
  void go_on_or_throw(Next next, Place& from);
  Fiber& fiber_for(std::uint32_t thread);
  void make_current(std::uint32_t thread) {
    current_ = thread;
    threadIdx = indices_[thread];
  }
  void give_up();

  std::array<Thread, limits::block_threads> threads_;
  std::array<uint3, limits::block_threads> indices_;  ///< threadIdx of each
  std::uint32_t count_ = 0;
  std::uint32_t live_ = 0;
  std::uint32_t waiting_ = 0;
  std::uint32_t current_ = 0;
  std::uint32_t starting_ = 0;
  std::array<std::uint32_t, limits::block_threads / 32> exited_{};
  ReadyQueue ready_;
  ThreadOrder order_ = ThreadOrder::parse("forward");
  Walk unbegun_{0, 0, 0};

  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> free_;
  Fiber* running_ = nullptr;
  Place host_;
  const std::function<void()>* body_ = nullptr;
  const ExitHook* exit_hook_ = nullptr;
  std::exception_ptr error_;
  // Under ThreadSanitizer thread i always runs on fiber i, since that is what counts as a thread there, and a
  // stack used by two of them would be reported.
  bool own_fibers_ = sanitizer::present.thread;
  char begun_ = 0;  ///< token: what the host did before the block
  char ended_ = 0;  ///< token: what the threads did
};

}  // namespace simgpu
