#include "launcher/gpu_variables.h"

#include <algorithm>
#include <vector>

#include "kernels/base/gpus.h"

namespace lockstep::launcher {
namespace {

bool must_share(const Job& job) {
  return job.allow_gpu_sharing && job.local_size > job.gpus;
}

/// The one of several parts that is this rank's; empty when CUDA can tell them apart by itself.
std::string own_part(const std::string& visible, int local_rank) {
  const std::vector<std::string> devices = visible_devices(visible);
  if (devices.size() < 2 || !std::ranges::all_of(devices, is_mig)) return {};
  return devices[static_cast<std::size_t>(local_rank) % devices.size()];
}

}  // namespace

Variables gpu_variables(const Job& job, int local_rank, const std::string& visible) {
  Variables variables;
  if (job.allow_gpu_sharing) variables["LOCKSTEP_GPU_SHARING"] = "1";
  if (must_share(job)) variables["NCCL_HOSTID"] = "rank" + std::to_string(job.first_rank() + local_rank);
  if (std::string part = own_part(visible, local_rank); !part.empty()) {
    variables["CUDA_VISIBLE_DEVICES"] = std::move(part);
  }
  return variables;
}

Variables shared_gpu_defaults(const Job& job) {
  if (!must_share(job)) return {};
  Variables variables{{"NCCL_NET", "Socket"},
                      {"NCCL_P2P_DISABLE", "1"},
                      {"NCCL_SHM_DISABLE", "1"},
                      {"NCCL_NVLS_ENABLE", "0"},
                      {"NCCL_MAX_CTAS", "4"}};
  if (job.node_count == 1) variables["NCCL_SOCKET_IFNAME"] = "lo";
  return variables;
}

}  // namespace lockstep::launcher
