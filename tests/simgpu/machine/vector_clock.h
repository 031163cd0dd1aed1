#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace simgpu {

/// Who acts one after the other: the host (0), a stream, a lane of an instantiated graph.
using Actor = std::uint32_t;
inline constexpr Actor host_actor = 0;

/// The tick-th act of an actor.
struct Stamp {
  Actor actor = host_actor;
  std::uint64_t tick = 0;
  bool operator==(const Stamp&) const = default;
};

/// What is known to have happened before (Fidge and Mattern, 1988): for each actor its last known act.
class VectorClock {
 public:
  bool knows(Stamp stamp) const { return at(stamp.actor) >= stamp.tick; }

  void set(Stamp stamp) {
    if (ticks_.size() <= stamp.actor) ticks_.resize(stamp.actor + std::size_t{1});
    ticks_[stamp.actor] = stamp.tick;
  }

  void join(const VectorClock& other) {
    if (ticks_.size() < other.ticks_.size()) ticks_.resize(other.ticks_.size());
    for (std::size_t i = 0; i < other.ticks_.size(); ++i) ticks_[i] = std::max(ticks_[i], other.ticks_[i]);
  }

 private:
  std::uint64_t at(Actor actor) const { return actor < ticks_.size() ? ticks_[actor] : 0; }

  std::vector<std::uint64_t> ticks_;
};

}  // namespace simgpu
