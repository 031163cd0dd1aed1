#pragma once

#include <filesystem>
#include <optional>

#include "comm/communicator.h"
#include "runtime/checkpoint/run_directory.h"
#include "runtime/checkpoint/run_state.h"

namespace lockstep::runtime {

/// A whole checkpoint on this rank's disk, from which the run goes on.
struct ResumePoint {
  std::filesystem::path folder;
  RunState state;
};

/// Collective. Of the whole checkpoints that any rank has, the newest; its lowest holder sends it to the
/// disks that lack it. Damaged ones are named in a warning and passed over. None if nothing is to be resumed,
/// or `auto` finds no checkpoint; DataError when a named one is not there or damaged.
std::optional<ResumePoint> find_resume_point(comm::Communicator& communicator,
                                             const RunDirectory& run_directory);

}  // namespace lockstep::runtime
