#pragma once

#include <cstdint>
#include <vector>

#include "comm/shm/segment.h"
#include "kernels/base/deadline.h"

namespace lockstep::comm {

/// All-to-all barriers of the ranks that share a segment. In round n every rank stores n in its RankSlot
/// and waits until all slots hold n or more. What a rank wrote before it arrived, all others see after the
/// round; it may be overwritten once the next round has passed.
class Barrier {
 public:
  enum class Outcome { all_here, aborted, peer_left, timed_out, mismatch };

  Barrier(const Segment& segment, int rank);

  /// The round that `arrive_and_wait` would enter next.
  std::uint32_t next() const { return round_ + 1; }

  /// `signature` tells what this rank believes the round is about; all must agree.
  Outcome arrive_and_wait(std::uint32_t signature, Clock::time_point deadline);
  /// After `timed_out`: until a later deadline.
  Outcome wait(Clock::time_point deadline);

  /// After an outcome other than all_here: the ranks that had not arrived, or those with another signature.
  std::vector<int> missing() const;
  std::vector<int> mismatched() const;

  /// Arrives at no further round and wakes the ranks that wait for this one.
  void detach() noexcept;

 private:
  bool has_arrived(int peer) const;
  bool agrees(int peer) const;
  Outcome wait_for(int peer, Clock::time_point deadline);
  bool spin_for(int peer) const;
  Outcome sleep_for(int peer, Clock::time_point deadline);

  const Segment& segment_;
  int rank_;
  std::uint32_t round_ = 0;
  std::uint32_t signature_ = 0;
  int max_spins_;
  int spins_;
};

}  // namespace lockstep::comm
