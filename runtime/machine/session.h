#pragma once

#include <memory>

#include "comm/communicator.h"
#include "kernels/base/activity.h"
#include "kernels/device.h"
#include "runtime/options/options.h"

namespace lockstep::runtime {

/// The resources of a command that computes: World, device, communicator.
struct Session {
  comm::World world;
  std::unique_ptr<Activity> activity = std::make_unique<Activity>();  ///< of this rank beside its steps
  std::unique_ptr<kernels::Device> device;
  std::unique_ptr<comm::Communicator> communicator;
  std::int64_t start_boottime_ns = 0;  ///< start of `launch`, or without it of this process
  int cores = 1;                       ///< that this rank may use
  int launch_columns = 0;              ///< of launch's terminal; 0: none, or no launch

  bool is_rank0() const { return world.rank == 0; }
};

/// Finds the World, opens the device, connects to the other ranks.
Session open_session(const Options& options);

}  // namespace lockstep::runtime
