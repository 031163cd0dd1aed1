#pragma once

#include <string>

#include "comm/communicator.h"
#include "comm/world/environment.h"
#include "kernels/base/activity.h"
#include "runtime/checkpoint/run_directory.h"

namespace lockstep::runtime {

/// The default of --resume: auto when a launcher restarts the run (torchrun's agent, launch, a requeued Slurm
/// job), else none.
std::string default_resume(const comm::Environment& environment);

/// What launchers call their job, for RUN/lock: a line NAME=value of each, which stays the same when it
/// restarts the run. The run id does not: it follows the first node and its port. A job without a name of its
/// own is told by the agent that restarts it.
std::string launcher_jobs(const comm::Environment& environment);

/// Collective. Those of all ranks: each node has an agent, and rank 0 may be on another one after a restart.
std::string launcher_jobs(comm::Communicator& communicator, const comm::Environment& environment);

/// Collective, before RUN/ is locked. A run that rank 0's launcher restarts goes on with what it has saved,
/// whatever --resume began it with. A RUN/ with another run, by its lock, is refused as at the first start.
void follow_restart(comm::Communicator& communicator, RunDirectory& run_directory,
                    const comm::Environment& environment, Activity* activity = nullptr);

}  // namespace lockstep::runtime
