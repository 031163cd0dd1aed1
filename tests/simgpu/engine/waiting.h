#pragma once

#include <string>

#include "tests/simgpu/engine/mistake.h"

namespace simgpu {

class Scheduler;

/// "threads 0-31 wait in __syncthreads at a.cu:12; thread 40 …": every thread of the block that waits.
std::string who_waits(const Scheduler& scheduler);

/// No thread of the block can go on.
KernelMistake deadlock(const Scheduler& scheduler);
[[noreturn]] void throw_deadlock(const Scheduler& scheduler);

}  // namespace simgpu
