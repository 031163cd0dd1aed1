#pragma once

#include <array>

#include "tests/simgpu/engine/thread_scheduler.h"

namespace simgpu {

/// The barrier of a block: all threads must come to the same call.
class Barrier {
 public:
  explicit Barrier(ThreadScheduler& scheduler) : scheduler_(scheduler) {}

  void begin_block() { arrived_ = 0; }
  /// Waits for all threads of the block; returns the sum of what they brought.
  int arrive(const Call& call, int value);
  /// A thread ended while others wait.
  void thread_exited();

 private:
  // Apart from arrive, whose frame lies on every waiting thread's stack and so should be small.
  [[noreturn, gnu::cold, gnu::noinline]] void diverged(const Call& call) const;
  [[noreturn, gnu::cold, gnu::noinline]] void misses_thread(const Call& call) const;
  void open();

  ThreadScheduler& scheduler_;
  std::uint32_t arrived_ = 0;
  const Call* call_ = nullptr;  ///< of the thread that came first, on its stack
  std::uint32_t first_ = 0;     ///< that thread
  int sum_ = 0;
  // By turns: a thread may come to the next barrier before another has left this one. The one after the next
  // needs them all.
  unsigned turn_ = 0;
  std::array<int, 2> result_{};
  std::array<char, 2> tokens_{};  ///< for ThreadSanitizer
};

}  // namespace simgpu
