#pragma once

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <thread>

#include "kernels/base/deadline.h"

namespace lockstep::comm {

/// poll(2), continued after signals. False when the deadline passed without an event.
inline bool poll_until(std::span<pollfd> events, Deadline deadline) {
  while (true) {
    if (poll(events.data(), events.size(), poll_milliseconds(deadline.left())) > 0) return true;
    if (deadline.passed()) return false;
  }
}

/// Throws when a wait for other ranks is in vain. Empty: nobody knows.
using Look = std::function<void()>;

/// poll_until, which looks each second.
inline bool poll_and_look(std::span<pollfd> events, Deadline deadline, const Look& look) {
  constexpr Seconds time_between_looks{1};
  while (!poll_until(events, Deadline::in(std::min(deadline.left(), time_between_looks)))) {
    if (deadline.passed()) return false;
    if (look) look();
  }
  return true;
}

/// The pauses between polls of something that cannot wake the caller.
class Backoff {
 public:
  struct Pauses {
    std::chrono::microseconds eager;    ///< from the start on, only yield the core
    std::chrono::microseconds first;    ///< sleep so long after that, and twice as long each time
    std::chrono::microseconds longest;  ///< but no longer than this
  };

  /// By default for a collective: a transfer within a node takes less than a millisecond, and after that the
  /// compute threads need the core.
  explicit Backoff(Pauses pauses = {.eager = std::chrono::milliseconds(1),
                                    .first = std::chrono::microseconds(10),
                                    .longest = std::chrono::microseconds(100)})
      : eager_until_(Clock::now() + pauses.eager), next_(pauses.first), longest_(pauses.longest) {}

  void pause() {
    if (Clock::now() < eager_until_) {
      sched_yield();
      return;
    }
    std::this_thread::sleep_for(next_);
    next_ = std::min(longest_, next_ * 2);
  }

 private:
  Clock::time_point eager_until_;
  std::chrono::microseconds next_;
  std::chrono::microseconds longest_;
};

/// Whether accept4(2) found no descriptor or memory for a connection.
inline bool lacks_room_to_accept(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
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
