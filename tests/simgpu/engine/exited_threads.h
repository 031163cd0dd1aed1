#pragma once

namespace simgpu {

/// Whether barriers and warp calls go on without threads that have returned: SIMGPU_EXITED_THREADS=allowed.
/// Hardware does; CUDA's manual does not promise it, so the default is a report.
bool exited_threads_allowed();

}  // namespace simgpu
