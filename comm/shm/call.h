#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "comm/communicator.h"
#include "comm/shm/barrier.h"
#include "kernels/base/deadline.h"

namespace lockstep::comm {

/// The collective in progress: what it is, for the check that all ranks agree, and for reports.
struct Call {
  enum class Kind : std::uint32_t {
    allocate_arena,
    all_reduce,
    reduce_scatter,
    all_gather,
    all_reduce_sum,
    broadcast,
    all_gather_texts,
    barrier
  };

  Kind kind = Kind::barrier;
  std::uint32_t number = 0;  ///< of all collectives of the group, from 1
  std::size_t bytes = 0;
  std::uint64_t detail = 0;  ///< ranges, root: must be equal on all ranks
  ExchangeLabel label;
  int rounds = 0;            ///< passed so far
  bool in_progress = false;  ///< it has begun and not ended
  Clock::time_point start;
  Clock::time_point all_here;  ///< when the first round passed

  /// Differs, but for accident, between calls or rounds that do not belong together.
  std::uint32_t signature() const;

  /// "all-reduce 17 (bucket 0, fc1.weight)"
  std::string describe() const;
};

/// Why a round failed, as one line that names ranks and call. `ranks` are the missing or disagreeing ones.
std::string explain(Barrier::Outcome outcome, const std::string& ranks, const Call& call, Seconds timeout);

}  // namespace lockstep::comm
