#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "comm/watchdog/failure_report.h"
#include "kernels/base/deadline.h"
#include "kernels/base/log.h"

namespace lockstep::comm {

/// How long a collective waits for ranks that have not come: until its deadline, and on while all of them get
/// on with long work (`RankStatus::progress`). The lowest rank that waits says so every few seconds.
class Patience {
 public:
  using StatusOf = std::function<std::optional<RankStatus>(int rank)>;

  Patience(int rank, Seconds timeout, Clock::time_point start, StatusOf status_of)
      : rank_(rank),
        timeout_(timeout),
        deadline_(start + clock_duration(timeout)),
        status_of_(std::move(status_of)) {}

  /// When the missing ranks are looked at for the first time.
  static Clock::time_point first_look(Clock::time_point start, Seconds timeout) {
    return start + clock_duration(std::min(timeout / 2, between_looks));
  }

  /// When to look again at the ranks that are `missing` now. Nothing when they are overdue.
  std::optional<Clock::time_point> look(const std::vector<int>& missing) {
    const auto now = Clock::now();
    stuck_.clear();
    for (const int rank : missing) {
      Seen& seen = seen_.try_emplace(rank, Seen{.first = now}).first->second;
      const auto status = status_of_(rank);
      const std::uint64_t progress = status ? status->progress : 0;
      if (seen.first != now && progress != seen.progress) seen.advanced = now;
      seen.progress = progress;
      const auto overdue =
          std::max(deadline_, seen.first + clock_duration(std::min(timeout_ / 2, between_looks)));
      if (now >= std::max(overdue, seen.advanced + clock_duration(timeout_))) stuck_.push_back(rank);
    }
    if (!stuck_.empty()) return std::nullopt;
    tell(missing, now);
    const auto next = now + clock_duration(std::min(timeout_ / 4, between_looks));
    return now < deadline_ ? std::min(next, deadline_) : next;
  }

  /// Those that were overdue.
  const std::vector<int>& stuck() const { return stuck_; }

 private:
  static constexpr Seconds between_looks{3};

  struct Seen {
    Clock::time_point first{};  ///< look at it
    std::uint64_t progress = 0;
    Clock::time_point advanced{};
  };

  void tell(const std::vector<int>& missing, Clock::time_point now) {
    int lowest = 0;
    while (std::ranges::find(missing, lowest) != missing.end()) ++lowest;
    if (rank_ != lowest || now < told_ + clock_duration(between_looks)) return;
    for (const int rank : missing) {
      if (seen_[rank].advanced < told_) continue;
      const auto status = status_of_(rank);
      if (!status) continue;
      log::info(
          fmt::format("waiting for rank {}: {}", rank, status->where.substr(0, status->where.rfind("; "))));
    }
    told_ = now;
  }

  const int rank_;
  const Seconds timeout_;
  const Clock::time_point deadline_;
  const StatusOf status_of_;
  std::map<int, Seen> seen_;
  std::vector<int> stuck_;
  Clock::time_point told_ = Clock::now();
};

}  // namespace lockstep::comm
