#pragma once

#include <cerrno>
#include <optional>
#include <string>

#include "kernels/base/deadline.h"
#include "kernels/base/error.h"

namespace lockstep::comm {

/// Whether accept4(2) found no descriptor or memory for a connection.
inline bool lacks_room_to_accept(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

inline std::string obstacle_to_accept(int error) {
  const bool is_limit = error == EMFILE || error == ENFILE;
  return errno_message(error) + (is_limit ? ": raise the limit (ulimit -n)" : "");
}

/// How long a listener without that room is not polled: the connection stays in the kernel's queue, and
/// poll(2) would tell of it again at once.
class AcceptPause {
 public:
  void begin() { end_ = Deadline::in(length); }
  bool is_over() const { return !end_ || end_->passed(); }
  Seconds left() const { return is_over() ? Seconds(0) : end_->left(); }

 private:
  static constexpr Seconds length{0.1};
  std::optional<Deadline> end_;
};

}  // namespace lockstep::comm
