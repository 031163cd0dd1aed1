#pragma once

#include <cstdint>
#include <string_view>

namespace [[gnu::visibility("default")]] simgpu {

/// A walk over 0 … count-1 that meets each number once.
class Walk {
 public:
  Walk(std::uint64_t count, std::uint64_t first, std::uint64_t step)
      : count_(count), next_(first), step_(step) {}

  bool done() const { return walked_ == count_; }
  std::uint64_t next() {
    const std::uint64_t number = next_;
    ++walked_;
    next_ += step_;
    if (next_ >= count_) next_ -= count_;
    return number;
  }

 private:
  std::uint64_t count_;
  std::uint64_t walked_ = 0;
  std::uint64_t next_;
  std::uint64_t step_;
};

/// In which order the threads of a block and the blocks of a grid run. A GPU promises none, so a right kernel
/// gives the same result in all of them.
class ThreadOrder {
 public:
  /// "forward", "reverse" or "shuffled:SEED"; anything else throws std::invalid_argument.
  static ThreadOrder parse(std::string_view text);
  /// SIMGPU_THREAD_ORDER, else forward.
  static ThreadOrder from_environment();

  Walk walk(std::uint64_t count);
  /// Which of `count` threads that may go on does so, in the order in which they were woken.
  std::uint64_t pick(std::uint64_t count) { return kind_ == Kind::shuffled ? random() % count : 0; }
  bool reversed() const { return kind_ == Kind::reverse; }
  bool shuffled() const { return kind_ == Kind::shuffled; }

 private:
  enum class Kind { forward, reverse, shuffled };
  ThreadOrder(Kind kind, std::uint64_t seed) : kind_(kind), state_(seed) {}
  std::uint64_t random();

  Kind kind_;
  std::uint64_t state_;
};

}  // namespace simgpu
