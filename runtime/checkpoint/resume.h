#pragma once

#include <cstdint>
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
/// checkpoint; UsageError when it finds a finished run without a whole one or without one of its end
/// (`require_end_saved`), DataError when a named checkpoint is missing or damaged.
std::optional<ResumePoint> find_resume_point(comm::Communicator& communicator,
                                             const RunDirectory& run_directory, Activity* activity = nullptr);

/// Collective. UsageError on all ranks where --resume names a checkpoint of RUN/, of step `step`, and a later
/// one there is not what this run would come to: `auto` would go on from that, and all that this run saves be
/// lost.
void require_one_course(comm::Communicator& communicator, const RunDirectory& run_directory,
                        std::int64_t step, const Settings& settings, const Settings& machine,
                        Activity* activity = nullptr);

}  // namespace lockstep::runtime
