#pragma once

#include <functional>
#include <optional>
#include <string>

#include "tests/simgpu/engine/grid.h"

namespace [[gnu::visibility("default")]] simgpu {

/// Runs thread_body once for each thread of the grid, block by block on the calling thread. While it runs,
/// threadIdx and its kin tell which thread it is, and it may call what engine/device_calls.h offers.
void run_grid(const Grid& grid, const std::function<void()>& thread_body);

/// "kernel NAME (launched at FILE:LINE), block (0,0,0), thread (5,0,0)" while the calling thread is inside a
/// kernel: for reports of faults that the hardware found.
std::optional<std::string> running_thread();

}  // namespace simgpu
