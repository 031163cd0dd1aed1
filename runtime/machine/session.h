#pragma once

#include <memory>

#include "comm/communicator.h"
#include "kernels/device.h"
#include "runtime/options/options.h"

namespace lockstep::runtime {

/// What a command that computes runs on: who we are, the others, the device.
struct Session {
  comm::World world;
  std::unique_ptr<kernels::Device> device;
  std::unique_ptr<comm::Communicator> communicator;
  std::int64_t start_boottime_ns = 0;  ///< when `launch`, or without it this process, was started
  int cores = 1;                       ///< that this rank may use
  int launch_columns = 0;              ///< of launch's terminal; 0: none, or no launch

  bool is_rank0() const { return world.rank == 0; }
};

/// Finds the World, opens the device, meets the other ranks.
Session open_session(const Options& options);

/// CLOCK_BOOTTIME in nanoseconds.
std::int64_t boottime_ns();

}  // namespace lockstep::runtime
