#pragma once

#include <sys/resource.h>

#include <string>

#include "kernels/base/error.h"

namespace lockstep {

/// Why the system gave no process, and what to do.
inline std::string obstacle_to_start_process(int error) {
  return errno_message(error) + "; raise ulimit -u, or the container's limit of processes";
}

/// Why the system gave no thread, and what to do. EAGAIN stands for a stack that found no room, too.
inline std::string obstacle_to_start_thread(int error) {
  const auto if_bounded = [](auto resource, const char* option) {
    rlimit bytes{};
    const bool is_bounded = getrlimit(resource, &bytes) == 0 && bytes.rlim_cur != RLIM_INFINITY;
    return is_bounded ? std::string(option) + ", or " : std::string();
  };
  return errno_message(error) + "; raise " + if_bounded(RLIMIT_AS, "ulimit -v") +
         if_bounded(RLIMIT_DATA, "ulimit -d") + "ulimit -u, or the container's limit of processes";
}

}  // namespace lockstep
