#include "comm/watchdog/heartbeats.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/base/deadline.h"

namespace lockstep::comm {
namespace {

/// A heartbeat a second, looked for every second: less than two are missed now and then.
constexpr Seconds longest_silence{1.9};

}  // namespace

std::string Heartbeats::look(Clock::time_point now, const ReadStatus& read_status) {
  // Who was suspended has missed the others' heartbeats, not they theirs.
  const bool was_away = !last_look_ || now - *last_look_ > longest_silence;
  last_look_ = now;
  if (was_away) {
    for (Seen& seen : seen_) seen.since = now;
  }
  std::vector<int> silent;
  Seconds longest{0};
  for (int rank = 0; rank < static_cast<int>(seen_.size()); ++rank) {
    if (rank == rank_) continue;
    const Seconds time = silence(rank, now, read_status);
    if (time <= longest_silence) {
      if (rank < rank_) return {};  // it tells
      continue;
    }
    if (seen_[static_cast<std::size_t>(rank)].is_told) continue;
    silent.push_back(rank);
    longest = std::max(longest, time);
  }
  if (silent.empty()) return {};
  for (const int rank : silent) seen_[static_cast<std::size_t>(rank)].is_told = true;
  return fmt::format("{}: no heartbeat for {:.1f} s", name_of_ranks(silent), longest.count());
}

Seconds Heartbeats::silence(int rank, Clock::time_point now, const ReadStatus& read_status) {
  Seen& seen = seen_[static_cast<std::size_t>(rank)];
  const auto status = read_status(rank);
  // While rank 0, which holds the store, is silent, nothing is known of the ranks on other nodes.
  const bool is_unknown = !status && rank != 0;
  if (is_unknown || (status && status->beat != seen.beat)) {
    seen = {.beat = status ? status->beat : seen.beat, .since = now};
  }
  return now - seen.since;
}

}  // namespace lockstep::comm
