#pragma once

#include <array>
#include <cstdint>

#include "tests/simgpu/engine/limits.h"

namespace simgpu {

/// Numbers of the threads that may go on, in the order in which they were woken.
class ReadyQueue {
 public:
  bool empty() const { return first_ == end_; }
  std::uint32_t size() const { return end_ - first_; }
  void clear() { first_ = end_ = 0; }
  /// The one at `position`, which may be beyond the end: then any.
  std::uint32_t peek(std::uint32_t position) const { return slots_[(first_ + position) % slots_.size()]; }
  void push(std::uint32_t thread) { slot(end_++) = static_cast<std::uint16_t>(thread); }
  /// Takes the one at `position`; the first one moves there.
  std::uint32_t take(std::uint32_t position) {
    const std::uint32_t thread = slot(first_ + position);
    slot(first_ + position) = slot(first_);
    ++first_;
    return thread;
  }

 private:
  std::uint16_t& slot(std::uint32_t index) { return slots_[index % limits::block_threads]; }

  std::array<std::uint16_t, limits::block_threads> slots_{};  // a thread is in it once at most
  std::uint32_t first_ = 0;
  std::uint32_t end_ = 0;
};

}  // namespace simgpu
