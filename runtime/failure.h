#pragma once

#include <filesystem>

#include "comm/watch/status.h"

namespace lockstep::runtime {

/// Shows why the group failed and where each rank was, and writes the same to RUN/failure.json when `run` is
/// there.
void report_failure(const comm::FailureReport& report, const std::filesystem::path& run);

}  // namespace lockstep::runtime
