#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "tests/simgpu/engine/barrier.h"
#include "tests/simgpu/engine/begun_copies.h"
#include "tests/simgpu/engine/grid.h"
#include "tests/simgpu/engine/shared_memory.h"
#include "tests/simgpu/engine/thread_scheduler.h"
#include "tests/simgpu/engine/warp.h"

namespace simgpu {

/// Runs one block at a time. Each system thread that runs kernels has one.
class Multiprocessor {
 public:
  void run(const Grid& grid, const std::function<void()>& thread_body);

  const Grid& grid() const { return *grid_; }
  ThreadScheduler& scheduler() { return scheduler_; }
  Barrier& barrier() { return barrier_; }
  Warp& warp() { return warps_[scheduler_.current() / limits::warp_threads]; }
  SharedMemory& shared_memory() { return shared_memory_; }
  BegunCopies& copies() { return copies_; }

  /// That of the grid which the calling system thread runs; null outside of kernels.
  static Multiprocessor* running() { return running_; }

 private:
  class Running;
  void begin_block();

  __attribute__((tls_model("initial-exec"))) static constinit thread_local Multiprocessor* running_;

  const Grid* grid_ = nullptr;
  ThreadScheduler scheduler_;
  Barrier barrier_{scheduler_};
  std::array<Warp, limits::block_threads / limits::warp_threads> warps_;
  SharedMemory shared_memory_;
  BegunCopies copies_;
};

}  // namespace simgpu
