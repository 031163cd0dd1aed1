#pragma once

#include <algorithm>

#include "kernels/base/deadline.h"

namespace lockstep::comm {

/// A timeout for poll(2): the time left, rounded up, at most a quarter of an hour (callers look again).
inline int poll_milliseconds(Seconds left) {
  return static_cast<int>(std::min(left.count() * 1000, 900'000.0)) + 1;
}

}  // namespace lockstep::comm
