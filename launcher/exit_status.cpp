#include "launcher/exit_status.h"

#include <string.h>

#include <algorithm>

#include <fmt/format.h>

namespace lockstep::launcher {
namespace {

/// The lower, the nearer to the first cause.
int distance_from_cause(const ExitStatus& status) {
  if (status.killed_by_us) return 4;
  if (status.after_failure) return 3;
  if (status.stopped()) return 2;
  return status.lost_peer() ? 1 : 0;
}

}  // namespace

std::optional<ExitStatus> root_cause(const std::vector<ExitStatus>& statuses) {
  const ExitStatus* decisive = nullptr;
  for (const ExitStatus& status : statuses) {
    if (status.good()) continue;
    if (!decisive || distance_from_cause(status) < distance_from_cause(*decisive)) decisive = &status;
  }
  return decisive ? std::optional(*decisive) : std::nullopt;
}

std::string describe(const ExitStatus& status, std::size_t ranks) {
  if (status.signal == 0) return fmt::format("left with exit code {}", status.code);
  const char* verb = ranks == 1 ? "was" : "were";
  const char* name = sigabbrev_np(status.signal);
  return name ? fmt::format("{} killed by SIG{}", verb, name)
              : fmt::format("{} killed by signal {}", verb, status.signal);
}

}  // namespace lockstep::launcher
