#pragma once

#include <memory>
#include <string>

#include "comm/world/world.h"
#include "kernels/device.h"
#include "runtime/options/options.h"

namespace lockstep::runtime {

/// Cores that this process may use: its affinity mask, divided among the ranks of the node unless each rank
/// has a mask of its own.
int usable_cores(const comm::World& world);

/// The device that a rank takes.
struct DeviceSelection {
  kernels::DeviceKind kind = kernels::DeviceKind::cpu;
  int gpu = 0;
  std::string warning;  ///< empty: none
};

/// Whether ranks may share a GPU: `launch --allow-gpu-sharing`, under other launchers LOCKSTEP_GPU_SHARING=1.
bool may_share_gpus(const comm::Environment& environment);

/// `auto` takes a GPU where there is one, else the CPU; `cuda` the one of the local rank (modulo the GPUs
/// when ranks `may_share` them), `cuda:i` that GPU. A rank that sees one GPU takes it, since schedulers hide
/// the others; the peer exchange finds out whether another rank has the same. UsageError when there are more
/// ranks than GPUs, DeviceError when there is no GPU or not that one.
DeviceSelection choose_device(const std::string& option, const comm::World& world, int gpus, bool may_share);

/// Opens the device of this rank. A build with CUDA on a machine without a driver logs that it uses the CPU.
std::unique_ptr<kernels::Device> open_device(const Options& options, const comm::World& world);

}  // namespace lockstep::runtime
