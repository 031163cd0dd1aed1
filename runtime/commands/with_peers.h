#pragma once

#include <filesystem>
#include <functional>

#include "kernels/base/error.h"
#include "runtime/machine/session.h"

namespace lockstep::runtime {

/// Tells RUN/ when it is known: a report of a failure is written there.
using SetRun = std::function<void(const std::filesystem::path& run)>;

/// Runs `body` on a rank of `session`; the exit code. A lost peer ends it with the one report of all ranks,
/// an error of this rank ends the peers, and work of this rank that makes no progress for `timeout` seconds
/// ends the process.
int with_peers(Session& session, double timeout, const std::function<ExitCode(const SetRun&)>& body);

}  // namespace lockstep::runtime
