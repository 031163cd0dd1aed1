#pragma once

namespace simgpu {

/// From now on a host access to device memory, or to pinned memory that a copy still uses, is told as a
/// mistake; any other SIGSEGV goes to the handler that was there before. To be called again and again: test
/// frameworks install handlers of their own.
void catch_host_faults();

}  // namespace simgpu
