#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/deadline.h"

namespace lockstep::comm {

/// A rank's status: published once a second, and as a final status when its group has failed.
struct RankStatus {
  int rank = 0;
  std::string host;
  int pid = 0;
  std::uint64_t beat = 0;      ///< grows with every status
  std::uint32_t call = 0;      ///< number of the collective that it is in, or was in last
  bool last = false;           ///< the final status, written after the failure
  std::vector<int> lost;       ///< with the final status: ranks of other nodes whose connections to it closed
  std::uint64_t progress = 0;  ///< grows while it gets on with long work
  std::string where;           ///< "step 12, forward conv1; in all-reduce 17 (bucket 0, fc1.weight)"
};

/// A published status is no longer than this.
inline constexpr std::size_t most_status_bytes = 500;

/// One line, cut to `most_status_bytes`.
std::string to_text(const RankStatus& status);
/// Nothing when a field is missing.
std::optional<RankStatus> parse_status(std::string_view text);

/// "rank 1" or "ranks 1, 3"
std::string name_of_ranks(const std::vector<int>& ranks);

/// Why a group failed and where each rank was.
struct FailureReport {
  std::string cause;              ///< the root cause, the same on all ranks
  std::vector<RankStatus> ranks;  ///< by rank; `last` is false without a final status
  std::vector<int> missing;       ///< ranks that are gone or do not answer
  /// Of all copies: whether it is still to be printed, here and nowhere else in the world.
  std::shared_ptr<std::atomic<bool>> unprinted = std::make_shared<std::atomic<bool>>(false);

  /// True once, on one rank: who asks then prints it.
  bool claim() const { return unprinted->exchange(false); }
  std::string text() const;
};

/// What a program gives the watchdog of its group. Both functions are called on the watchdog's thread.
struct WatchHooks {
  /// What this rank does beside its collectives: "step 12, forward conv1".
  std::function<std::string()> position;
  /// Grows while this rank gets on with work that may take longer than a collective's time-out: its peers
  /// then wait for it.
  std::function<std::uint64_t()> progress = {};
  /// The group has failed, and the program has not left within `grace`.
  std::function<void(const FailureReport&)> overdue;
  Seconds grace{1.4};  ///< all ranks leave within 2 s, the time to print the report included
};

}  // namespace lockstep::comm
