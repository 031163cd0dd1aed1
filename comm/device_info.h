#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "comm/nccl/library.h"
#include "kernels/device.h"

namespace lockstep::comm {

/// What a rank tells the others of the device that it computes on.
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

/// Why these ranks, all on GPUs, do not meet by NCCL; empty when they do. It can be made to take ranks that
/// share a GPU for ranks of different hosts, but is slow then: they meet so only when it is `asked_for`.
std::string why_not_nccl(const std::vector<DeviceInfo>& devices, bool asked_for);

}  // namespace lockstep::comm
