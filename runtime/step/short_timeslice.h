#pragma once

namespace lockstep::runtime {

/// Asks the scheduler for short turns of the calling thread, soon after it wakes, in place of long ones
/// later. For a thread that shares its core with compute and mostly waits. Linux 6.12 and newer heed it,
/// older ones do not mind.
void request_short_timeslice();

}  // namespace lockstep::runtime
