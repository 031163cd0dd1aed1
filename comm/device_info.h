#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "comm/nccl/library.h"
#include "kernels/device.h"

namespace lockstep::comm {

/// The device that a rank computes on, as the other ranks see it.
struct DeviceInfo {
  GpuIdentity gpu;           ///< empty: it computes on the CPU
  std::string nccl_problem;  ///< why NCCL cannot be loaded there; empty when it can

  bool is_gpu() const { return !gpu.physical.empty(); }
};

/// NCCL is loaded where `backend` may come to it.
DeviceInfo device_info_of(kernels::Device& device, std::string_view backend);

/// Collective. By rank, the same on all.
std::vector<DeviceInfo> exchange_device_info(Communicator& group, const DeviceInfo& mine);

/// DeviceError when some ranks compute on GPUs and others on the CPU: those see no GPU.
void require_one_kind(const std::vector<DeviceInfo>& devices);

/// UsageError when two ranks compute on one GPU.
void require_own_gpus(const std::vector<DeviceInfo>& devices);

/// Why these ranks, all on GPUs, do not exchange by NCCL; empty when they do. NCCL can be made to accept
/// ranks that share a GPU, but is slow then: they use it only when the user `asked_for` it.
std::string why_not_nccl(const std::vector<DeviceInfo>& devices, bool asked_for);

}  // namespace lockstep::comm
