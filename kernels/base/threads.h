#pragma once

#include <sys/resource.h>

#include <string>

#include "kernels/base/error.h"

namespace lockstep {

/// Why the system gave no thread, and what to do. EAGAIN stands for a stack that found no room, too.
inline std::string obstacle_to_start_thread(int error) {
  rlimit space{};
  const bool is_bounded = getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY;
  return errno_message(error) + "; raise " + (is_bounded ? "ulimit -v, or " : "") +
         "ulimit -u, or the container's limit of processes";
}

}  // namespace lockstep
