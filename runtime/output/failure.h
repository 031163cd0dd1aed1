#pragma once

#include <filesystem>
#include <memory>

#include "comm/communicator.h"
#include "runtime/step/step_tracker.h"

namespace lockstep::runtime {

/// Shows why the group failed and where each rank was, and writes the same to RUN/failure.json when `run` is
/// there.
void report_failure(const comm::FailureReport& report, const std::filesystem::path& run);

/// From now on a failed group says where this rank was, and a rank that waits for anything but its peers (the
/// loader, a disk) still ends in time.
void watch_for_failure(comm::Communicator& communicator, std::shared_ptr<const StepTracker> here,
                       const std::filesystem::path& run);

}  // namespace lockstep::runtime
