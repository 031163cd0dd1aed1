#pragma once

#include <cstddef>

#include "tests/simgpu/engine/context.h"

namespace simgpu {

/// A stack for CUDA threads, with an unmapped page below it. Pages are taken from the system as they are
/// touched.
class Stack {
 public:
  static constexpr std::size_t bytes = std::size_t{256} << 10;

  /// `number` colours the stack: its top is moved by a few cache lines, since stacks that all start at the
  /// same offset fight for the same cache sets.
  explicit Stack(unsigned number);
  ~Stack();
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  std::byte* bottom() const { return bottom_; }
  std::byte* top() const { return top_; }

 private:
  std::byte* mapping_;
  std::byte* bottom_;
  std::byte* top_;
};

}  // namespace simgpu
