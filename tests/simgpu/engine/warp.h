#pragma once

#include <array>
#include <cstdint>

#include "tests/simgpu/engine/scheduler.h"

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
    Call call{};
    std::uint32_t mask = 0;
    std::uint64_t value = 0;
    int source = 0;  ///< the lane it reads from
    Combine combine = nullptr;
    Deliver deliver = nullptr;
    std::uint64_t result = 0;
    void* token = nullptr;  ///< ThreadSanitizer's, of a call that orders memory
  };

  void begin_block(Scheduler& scheduler, std::uint32_t number);
  /// Meets the lanes of the mask; called by one of them. Returns its result.
  std::uint64_t meet(const Lane& brought);
  /// A thread of the warp ended while others wait.
  void lane_exited(std::uint32_t lane);

 private:
  void check_mask(std::uint32_t lane) const;
  void check_others(std::uint32_t lane) const;
  /// Whether all that lane `lane` waits for have come to its call.
  bool complete(std::uint32_t lane) const;
  /// Hands out the results; wakes all but the lane that runs.
  void finish(std::uint32_t lane);
  void order_memory(std::uint32_t present);

  Scheduler* scheduler_ = nullptr;
  std::uint32_t number_ = 0;
  std::uint32_t waiting_ = 0;
  std::uint32_t round_ = 0;
  Lanes lanes_;
  std::array<char, 64> tokens_{};
};

}  // namespace simgpu
