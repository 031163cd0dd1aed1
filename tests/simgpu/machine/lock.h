#pragma once

#include <mutex>

namespace simgpu {

/// The machine's one lock, held by the caller. Released while an operation runs or a peer is awaited.
using Lock = std::unique_lock<std::mutex>;

}  // namespace simgpu
