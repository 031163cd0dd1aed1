#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "kernels/base/deadline.h"

namespace lockstep::comm {

/// Tells of connections that a port closed: at most a line a second, with how many there were for which
/// reason.
class RejectionLog {
 public:
  /// `port`: what it is, for the log.
  explicit RejectionLog(std::string port) : port_(std::move(port)) {}
  ~RejectionLog() { write(); }
  RejectionLog(RejectionLog&&) noexcept = default;

  void add(const std::string& reason, const std::string& peer);
  /// Writes what has come together, once it is time.
  void write_when_due();
  /// Until write_when_due has something to do.
  Seconds time_left() const;

 private:
  struct Rejections {
    std::size_t count = 0;
    std::string last_peer;
  };
  void write();

  std::string port_;
  std::map<std::string, Rejections> reasons_;  ///< since the last line
  std::optional<Deadline> next_line_;
};

}  // namespace lockstep::comm
