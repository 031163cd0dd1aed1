#pragma once

#include <string>

#include "tests/simgpu/engine/mistake.h"

namespace simgpu {

class ThreadScheduler;

/// "threads 0-31 wait in __syncthreads at a.cu:12; thread 40 …": every thread of the block that waits.
std::string who_waits(const ThreadScheduler& scheduler);

/// No thread of the block can go on.
KernelMistake deadlock(const ThreadScheduler& scheduler);
[[noreturn]] void throw_deadlock(const ThreadScheduler& scheduler);

}  // namespace simgpu
