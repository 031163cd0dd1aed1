#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/world/environment.h"
#include "kernels/base/error.h"

namespace lockstep::comm {

/// Who this process is among the ranks.
struct World {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  int node_rank = 0;  ///< a guess under openmpi, which does not tell it
  int node_count = 1;
  std::string master_addr = "127.0.0.1";
  int master_port = 0;               ///< 0: none given
  bool master_port_is_ours = false;  ///< our own launch set it: no agent's store listens there
  std::string run_id;                ///< the same on all ranks of a run, different between runs
  int restart = 0;            ///< how often the launcher has started it again, where all ranks are told
  std::int64_t start_ns = 0;  ///< tells the ranks of one launch from another's; 0: another source
  std::string source;         ///< the source that gave it: launch, torchrun, openmpi, pmix, slurm, alone
};

/// One source of a World, found or not, and why. `trainer devices` prints it.
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

/// What the second start of a rank ends with. `first` is "rank 1 (pid 123 on gpu07)".
UsageError second_start(const std::string& run_id, const std::string& first);

}  // namespace lockstep::comm
