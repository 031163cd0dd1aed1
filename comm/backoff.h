#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "kernels/base/deadline.h"

namespace lockstep::comm {

/// Between two looks at something that cannot wake us: without a pause as long as a transfer within a node
/// takes, then less and less often, as the compute threads can bear.
class Backoff {
 public:
  void take() {
    if (Clock::now() - start_ < eager) {
      sched_yield();
      return;
    }
    std::this_thread::sleep_for(length_);
    length_ = std::min(longest, length_ * 2);
  }

 private:
  static constexpr std::chrono::milliseconds eager{1};
  static constexpr std::chrono::microseconds longest{100};
  Clock::time_point start_ = Clock::now();
  std::chrono::microseconds length_{10};
};

}  // namespace lockstep::comm
