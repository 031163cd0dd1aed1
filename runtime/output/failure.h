#pragma once

#include <filesystem>
#include <memory>

#include "comm/communicator.h"
#include "kernels/base/activity.h"

namespace lockstep::runtime {

class StepTracker;

/// Prints why the group failed and where each rank was, and writes the same to RUN/failure.json if `run`
/// exists and its disk takes it within half a second, or says that it did not.
void report_failure(const comm::FailureReport& report, const std::filesystem::path& run);

/// Of an earlier part of the run, when a later one has succeeded.
void remove_failure(const std::filesystem::path& run);

/// From now on a report of a failure tells where this rank was (`tracker`, `activity`), and a rank that waits
/// for anything but its peers (the loader, a disk) still ends in time.
void watch_for_failure(comm::Communicator& communicator, std::shared_ptr<const StepTracker> tracker,
                       const Activity& activity, const std::filesystem::path& run);

}  // namespace lockstep::runtime
