#pragma once

#include <array>
#include <cstdint>

#include "tests/simgpu/engine/thread_scheduler.h"

namespace simgpu {

/// The lanes of a warp and the calls in which they meet. The last one to come checks that all are in the same
/// call and hands out everybody's result, so there is one wait per call.
class Warp {
 public:
  static constexpr std::uint32_t lanes = limits::warp_threads;

  struct Lane;
  using Lanes = std::array<Lane, lanes>;
  /// Computes the results of the lanes that are `present`. Null: the call only orders memory.
  using Deliver = void (*)(Lanes& lanes, std::uint32_t present);

  /// What a lane brings to a call, and what it gets.
  struct Lane {
    const Call* call = nullptr;  ///< on the lane's stack
    Deliver deliver = nullptr;
    std::uint64_t value = 0;
    std::uint64_t result = 0;
    std::uint32_t mask = 0;
    int source = 0;  ///< the lane it reads from
    Combine combine = nullptr;
    WarpProduct product{};
    Widen widen = nullptr;
  };

  void begin_block(ThreadScheduler& scheduler, std::uint32_t number);
  /// The calling thread's lane, to be filled before it meets the others.
  Lane& own_lane() { return lanes_[scheduler_->current() % lanes]; }
  /// Meets the lanes of own_lane()'s mask. Returns its result.
  std::uint64_t meet();
  /// A thread of the warp ended while others wait.
  void lane_exited(std::uint32_t lane);

 private:
  // Apart from meet, whose frame lies on every waiting thread's stack and so should be small.
  [[noreturn, gnu::cold, gnu::noinline]] void left_itself_out(const Lane& lane, std::uint32_t self) const;
  [[noreturn, gnu::cold, gnu::noinline]] void named_exited(const Lane& lane, std::uint32_t exited) const;
  [[noreturn, gnu::cold, gnu::noinline]] void diverged(const Lane& lane, std::uint32_t other) const;
  /// Whether all that lane `lane` waits for have come to its call.
  bool complete(std::uint32_t lane) const;
  /// Hands out the results; wakes all but the lane that runs.
  void finish(std::uint32_t lane);
  void order_memory(std::uint32_t present);

  ThreadScheduler* scheduler_ = nullptr;
  std::uint32_t number_ = 0;
  std::uint32_t waiting_ = 0;
  std::uint32_t round_ = 0;
  Lanes lanes_;
  // ThreadSanitizer's: of the last rounds that ordered memory, and each lane's own.
  std::array<char, 64> tokens_{};
  std::array<void*, lanes> token_of_lane_{};
};

}  // namespace simgpu
