#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/simgpu/engine/device_calls.h"
#include "tests/simgpu/engine/limits.h"

namespace simgpu {

class ThreadScheduler;

/// The copies that a block's threads have begun and not waited for.
class BegunCopies {
 public:
  void begin_block();
  /// Throws a mistake when a thread has left some.
  void end_block(const ThreadScheduler& scheduler) const;

  void add(std::uint32_t thread, const BegunCopy& copy);
  /// The thread's next copy, the oldest first. False: it has no more.
  bool take(std::uint32_t thread, BegunCopy& copy);

 private:
  struct Queue {
    std::vector<BegunCopy> copies;
    std::size_t taken = 0;
  };

  std::array<Queue, limits::block_threads> queues_;
  std::size_t count_ = 0;  ///< of all threads: nearly always 0 where a block begins or ends
};

}  // namespace simgpu
