#include "comm/shm/barrier.h"

#include <emmintrin.h>

#include <algorithm>
#include <chrono>

namespace lockstep::comm {
namespace {

// About 100 us of pauses on current cores: a wake through a futex costs 5 to 50 us on top of the wait.
constexpr int longest_spin = 2000;
constexpr int shortest_spin = 20;

// Asleep for less than this, wake included: a longer spin would have been the better choice.
constexpr std::chrono::microseconds short_sleep{150};

// An abort or a detach between the last check and the sleep would be missed: check again this often.
constexpr std::chrono::milliseconds longest_sleep{20};

}  // namespace

Barrier::Barrier(const Segment& segment, int rank)
    : segment_(segment),
      rank_(rank),
      max_spins_(segment.usable_cores() >= segment.ranks() ? longest_spin : 0),
      spins_(max_spins_) {}

Barrier::Outcome Barrier::arrive_and_wait(std::uint32_t signature, Clock::time_point deadline) {
  if (segment_.aborted()) return Outcome::aborted;
  ++round_;
  signature_ = signature;
  RankSlot& mine = segment_.rank_slot(rank_);
  mine.signature[round_ % 2].store(signature, std::memory_order_relaxed);
  mine.round.store(round_);  // sequentially consistent, as is `sleepers`: one of the two sides sees the other
  if (mine.sleepers.load() != 0) futex_wake_all(mine.round);
  return wait(deadline);
}

Barrier::Outcome Barrier::wait(Clock::time_point deadline) {
  for (int peer = 0; peer < segment_.ranks(); ++peer) {
    if (peer == rank_) continue;
    const Outcome outcome = wait_for(peer, deadline);
    if (outcome != Outcome::all_here) return outcome;
    if (!agrees(peer)) return Outcome::mismatch;
  }
  return Outcome::all_here;
}

bool Barrier::has_arrived(int peer) const {
  return static_cast<std::int32_t>(segment_.rank_slot(peer).round.load() - round_) >= 0;
}

bool Barrier::agrees(int peer) const {
  return segment_.rank_slot(peer).signature[round_ % 2].load(std::memory_order_relaxed) == signature_;
}

Barrier::Outcome Barrier::wait_for(int peer, Clock::time_point deadline) {
  if (has_arrived(peer) || spin_for(peer)) return Outcome::all_here;
  const auto start = Clock::now();
  const Outcome outcome = sleep_for(peer, deadline);
  // Spinning in vain takes time from threads that share the core, so after a long sleep the next spin is
  // shorter.
  spins_ = Clock::now() - start < short_sleep ? std::max(spins_, shortest_spin) * 2 : spins_ / 2;
  spins_ = std::clamp(spins_, 0, max_spins_);
  return outcome;
}

bool Barrier::spin_for(int peer) const {
  for (int spin = 0; spin < spins_; ++spin) {
    _mm_pause();
    if (has_arrived(peer)) return true;
  }
  return false;
}

Barrier::Outcome Barrier::sleep_for(int peer, Clock::time_point deadline) {
  RankSlot& slot = segment_.rank_slot(peer);
  slot.sleepers.fetch_add(1);
  Outcome outcome = Outcome::all_here;
  while (true) {
    const std::uint32_t seen = slot.round.load();
    if (has_arrived(peer)) break;
    const auto now = Clock::now();
    if (segment_.aborted()) {
      outcome = Outcome::aborted;
    } else if (slot.left.load() != 0 && !has_arrived(peer)) {
      outcome = Outcome::peer_left;
    } else if (now >= deadline) {
      outcome = Outcome::timed_out;
    }
    if (outcome != Outcome::all_here) break;
    futex_wait(slot.round, seen, std::min<std::chrono::nanoseconds>(longest_sleep, deadline - now));
  }
  slot.sleepers.fetch_sub(1);
  return outcome;
}

std::vector<int> Barrier::missing() const {
  std::vector<int> ranks;
  for (int peer = 0; peer < segment_.ranks(); ++peer) {
    if (peer != rank_ && !has_arrived(peer)) ranks.push_back(peer);
  }
  return ranks;
}

std::vector<int> Barrier::mismatched() const {
  std::vector<int> ranks;
  for (int peer = 0; peer < segment_.ranks(); ++peer) {
    if (peer != rank_ && has_arrived(peer) && !agrees(peer)) ranks.push_back(peer);
  }
  return ranks;
}

void Barrier::detach() noexcept {
  RankSlot& mine = segment_.rank_slot(rank_);
  mine.left.store(1);
  futex_wake_all(mine.round);
}

}  // namespace lockstep::comm
