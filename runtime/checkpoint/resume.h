#pragma once

#include <filesystem>
#include <optional>

#include "comm/communicator.h"
#include "runtime/checkpoint/run_directory.h"
#include "runtime/checkpoint/run_state.h"

namespace lockstep::runtime {

/// A whole checkpoint on this rank's disk from which the run resumes.
struct ResumePoint {
  std::filesystem::path folder;
  RunState state;
};

/// Collective. The newest whole checkpoint of any rank; the lowest rank that has it sends it to disks without
/// it. A warning names damaged checkpoints, which are skipped. None without --resume, or when `auto` finds no
/// checkpoint; UsageError when it finds a finished run without a whole one, DataError when a named checkpoint
/// is missing or damaged.
std::optional<ResumePoint> find_resume_point(comm::Communicator& communicator,
                                             const RunDirectory& run_directory, Activity* activity = nullptr);

}  // namespace lockstep::runtime
