#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "comm/world/world.h"
#include "kernels/base/host.h"
#include "kernels/device.h"
#include "runtime/options/options.h"

namespace lockstep::runtime {

/// The CPUs that this process may run on, as the kernel lists them ("0-3,8").
std::string affinity_list();

/// The CPUs of `allowed` on the NUMA node of the PCI device `bus_id`, from the system files below `root`.
/// Empty when these do not know the node, and when none of its CPUs is allowed.
CpuList cpus_near(const std::string& bus_id, const CpuList& allowed, const std::filesystem::path& root = "/");

/// Binds the calling thread, and threads that it starts later, to the CPUs near its GPU that it may use; does
/// nothing when there are none, or all are near. `bus_id`: empty on the CPU.
void bind_near(const std::string& bus_id);

/// A hint in one line when mpirun has bound this rank to one core of several, as it does in small jobs:
/// compute and communication then share that core, whose hardware threads `allowed` may list. Else "". System
/// files are read below `root`.
std::string binding_advice(const comm::World& world, const CpuList& allowed = affinity_mask(),
                           const std::filesystem::path& root = "/");

/// Cores that this process may use: its affinity mask (`allowed`), divided among the ranks of the node unless
/// each rank has a mask of its own, and no more than its part of the cgroup's CPU quota. System files are
/// read below `root`.
int usable_cores(const comm::World& world, const CpuList& allowed = affinity_mask(),
                 const std::filesystem::path& root = "/");

enum class DeviceKind { cpu, cuda };

/// The device that a rank takes.
struct DeviceSelection {
  DeviceKind kind = DeviceKind::cpu;
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

/// --sync-launch, or CUDA_LAUNCH_BLOCKING=1, which asks CUDA for the same.
bool syncs_launches(const Options& options);

/// Opens the device of this rank. A build with CUDA on a machine without a driver logs that it uses the CPU.
std::unique_ptr<kernels::Device> open_device(const Options& options, const comm::World& world);

}  // namespace lockstep::runtime
