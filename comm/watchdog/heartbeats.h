#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comm/watchdog/failure_report.h"
#include "kernels/base/deadline.h"

namespace lockstep::comm {

/// Which ranks have sent no heartbeat for a while, as the lowest rank that sends some tells once per pause.
class Heartbeats {
 public:
  /// A rank's newest status; nothing when it cannot be known now.
  using ReadStatus = std::function<std::optional<RankStatus>(int rank)>;

  Heartbeats(int rank, int ranks) : rank_(rank), seen_(static_cast<std::size_t>(ranks)) {}

  /// To be called once a second. "rank 3: no heartbeat for 2.1 s", if this rank is to say so now; else empty.
  std::string look(Clock::time_point now, const ReadStatus& read_status);

 private:
  struct Seen {
    std::uint64_t beat = 0;
    Clock::time_point since;
    bool is_told = false;
  };
  /// How long the rank has been silent.
  Seconds silence(int rank, Clock::time_point now, const ReadStatus& read_status);

  int rank_;
  std::vector<Seen> seen_;
  std::optional<Clock::time_point> last_look_;
};

}  // namespace lockstep::comm
