#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comm/world/world.h"

namespace lockstep::comm {

using Environment = std::function<std::optional<std::string>(const char* name)>;

/// getenv of this process.
Environment process_environment();

/// One source of a World, found or not, and why: what `trainer devices` shows.
struct Finding {
  std::string source;
  std::optional<World> world;
  std::string reason;
  bool broken = false;  ///< its variables are there, but malformed or incomplete: `reason` tells
};

/// Every source in order of precedence: launch, torchrun, openmpi, pmix, slurm, alone. Never throws
/// UsageError.
std::vector<Finding> examine(const Environment& environment);

/// The World to use. `forced` (--world) names a source, or is empty. UsageError when two sources disagree
/// (both are shown), when a variable is malformed, or when something hints at more ranks than were found.
World find_world(const Environment& environment, const std::string& forced = {});

}  // namespace lockstep::comm
