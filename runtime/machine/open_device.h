#pragma once

#include <memory>
#include <string>

#include "comm/world/world.h"
#include "kernels/device.h"
#include "runtime/options/options.h"

namespace lockstep::runtime {

/// Cores that this process may use: affinity mask, shared among the ranks of the node unless each has its
/// own.
int usable_cores(const comm::World& world);

/// What `--device` asks of a rank that sees `gpus` GPUs.
struct DeviceChoice {
  kernels::DeviceKind kind = kernels::DeviceKind::cpu;
  int gpu = 0;
  std::string warning;  ///< empty: nothing to say
};

/// Whether `launch --allow-gpu-sharing` started us; under other launchers LOCKSTEP_GPU_SHARING=1 says so.
bool may_share_gpus(const comm::Environment& environment);

/// `auto` takes a GPU where there is one, else the CPU; `cuda` the one of the local rank (modulo the GPUs
/// when ranks `may_share` them), `cuda:i` that one. A rank that sees one GPU takes it, since schedulers hide
/// the others: whether it is another rank's too shows when they meet. UsageError when there are more ranks
/// than GPUs, DeviceError when there is none, or not that one.
DeviceChoice choose_device(const std::string& option, const comm::World& world, int gpus, bool may_share);

/// The device of this rank. A build with CUDA on a machine without a driver says that it computes on the CPU.
std::unique_ptr<kernels::Device> open_device(const Options& options, const comm::World& world);

}  // namespace lockstep::runtime
