#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>

#include "tests/unit/comm/interleavings/explorer.h"

// Twin of comm/shm/segment.h: what comm/shm/barrier.cpp uses of it, in memory whose accesses an Explorer
// orders.
namespace lockstep::comm {

using interleavings::Atomic;
using interleavings::Explorer;

inline void futex_wait(Atomic& word, std::uint32_t expected, std::chrono::nanoseconds) {
  word.sleep_while(expected);
}

inline void futex_wake_all(Atomic& word) {
  word.wake_all();
}

struct RankSlot {
  explicit RankSlot(Explorer& explorer)
      : round(explorer), sleepers(explorer), signature{Atomic(explorer), Atomic(explorer)}, left(explorer) {}

  Atomic round;
  Atomic sleepers;
  std::array<Atomic, 2> signature;
  Atomic left;
};

class Segment {
 public:
  Segment(Explorer& explorer, int ranks) : aborted_(explorer) {
    for (int rank = 0; rank < ranks; ++rank) slots_.emplace_back(explorer);
  }

  int ranks() const { return static_cast<int>(slots_.size()); }
  /// Too few to spin: a spin only loads the round of a peer once more.
  int usable_cores() const { return 0; }
  RankSlot& rank_slot(int rank) const { return slots_[static_cast<std::size_t>(rank)]; }

  void abort() {
    aborted_.store(1);
    for (RankSlot& slot : slots_) futex_wake_all(slot.round);
  }
  bool aborted() const { return aborted_.load(std::memory_order_acquire) != 0; }

 private:
  Atomic aborted_;
  mutable std::deque<RankSlot> slots_;  // which others change through a constant segment, as in the real one
};

}  // namespace lockstep::comm
