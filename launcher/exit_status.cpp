#include "launcher/exit_status.h"

#include <string.h>

#include <algorithm>

#include <fmt/format.h>

namespace lockstep::launcher {
namespace {

/// The lower, the nearer to the first cause.
int distance_from_cause(const Ending& ending) {
  if (ending.killed_by_us) return 4;
  if (ending.after_failure) return 3;
  if (ending.stopped()) return 2;
  return ending.lost_peer() ? 1 : 0;
}

}  // namespace

std::optional<Ending> decisive_ending(const std::vector<Ending>& endings) {
  const Ending* decisive = nullptr;
  for (const Ending& ending : endings) {
    if (ending.good()) continue;
    if (!decisive || distance_from_cause(ending) < distance_from_cause(*decisive)) decisive = &ending;
  }
  return decisive ? std::optional(*decisive) : std::nullopt;
}

std::string describe(const Ending& ending, std::size_t ranks) {
  if (ending.signal == 0) return fmt::format("left with exit code {}", ending.code);
  const char* verb = ranks == 1 ? "was" : "were";
  const char* name = sigabbrev_np(ending.signal);
  return name ? fmt::format("{} killed by SIG{}", verb, name)
              : fmt::format("{} killed by signal {}", verb, ending.signal);
}

}  // namespace lockstep::launcher
