#pragma once

#include "comm/world/find_world.h"

namespace lockstep::comm {

/// One function per source: the World that its variables describe, or why it is not in force. UsageError when
/// they are there but malformed, incomplete or contradictory.
Finding examine_launch(const Environment& environment);
Finding examine_torchrun(const Environment& environment);
Finding examine_openmpi(const Environment& environment);
Finding examine_pmix(const Environment& environment);
Finding examine_slurm(const Environment& environment);
Finding examine_alone(const Environment& environment);

/// What suggests that this process is one of several although no source was found; "" when nothing does.
std::string hint_at_more_ranks(const Environment& environment);

}  // namespace lockstep::comm
