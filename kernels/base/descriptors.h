#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>

#include "kernels/base/error.h"

namespace lockstep {

/// Raises how many descriptors this process may have open to `wanted`, as far as its hard limit goes: 1024 is
/// the usual soft one. Gives the limit before if that was another.
inline std::optional<rlimit> allow_descriptors(rlim_t wanted) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::nullopt;
  const rlimit before = limit;
  limit.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, wanted));
  if (limit.rlim_cur == before.rlim_cur || setrlimit(RLIMIT_NOFILE, &limit) != 0) return std::nullopt;
  return before;
}

/// Why a call gave no descriptor, and what to do: where there are not too many, `hint`.
inline std::string obstacle_to_open(int error, const std::string& hint = {}) {
  if (error == EMFILE || error == ENFILE) return errno_message(error) + ": raise the limit (ulimit -n)";
  return errno_message(error) + (hint.empty() ? "" : "; " + hint);
}

}  // namespace lockstep
