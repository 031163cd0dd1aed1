#include "comm/device_info.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "comm/make_communicator.h"
#include "kernels/base/error.h"

namespace lockstep::comm {
namespace {

std::string to_text(const DeviceInfo& device) {
  return fmt::format("{}\n{}\n{}\n{}", device.gpu.host, device.gpu.physical, device.gpu.to_nccl,
                     device.nccl_problem);
}

DeviceInfo parse_device_info(const std::string& text) {
  std::istringstream lines(text);
  DeviceInfo device;
  std::getline(lines, device.gpu.host);
  std::getline(lines, device.gpu.physical);
  std::getline(lines, device.gpu.to_nccl);
  std::getline(lines, device.nccl_problem);
  return device;
}

/// The first two ranks with equal keys.
template <class Key>
std::optional<std::pair<int, int>> first_equals(const std::vector<DeviceInfo>& devices, Key key) {
  std::map<std::string, int> owners;
  for (int rank = 0; const DeviceInfo& device : devices) {
    const auto [owner, is_new] = owners.emplace(key(device), rank);
    if (!is_new) return std::pair(owner->second, rank);
    ++rank;
  }
  return std::nullopt;
}

std::string physical_key(const DeviceInfo& device) {
  return device.gpu.key();
}

}  // namespace

DeviceInfo device_info_of(kernels::Device& device, std::string_view backend) {
  if (device.is_cpu()) return {};
  return {.gpu = gpu_identity(device),
          .nccl_problem = may_use_nccl(backend, device) ? nccl_problem() : std::string()};
}

std::vector<DeviceInfo> exchange_device_info(Communicator& group, const DeviceInfo& mine) {
  std::vector<DeviceInfo> devices;
  for (const std::string& text : group.all_gather(to_text(mine))) devices.push_back(parse_device_info(text));
  return devices;
}

void require_one_kind(const std::vector<DeviceInfo>& devices) {
  const auto on_gpu = std::ranges::find_if(devices, &DeviceInfo::is_gpu);
  const auto on_cpu = std::ranges::find_if_not(devices, &DeviceInfo::is_gpu);
  if (on_gpu == devices.end() || on_cpu == devices.end()) return;
  throw DeviceError(fmt::format(
      "rank {} sees no GPU and rank {} does: look at rank {}'s CUDA_VISIBLE_DEVICES and what its container "
      "or job step was given, or use --device cpu",
      on_cpu - devices.begin(), on_gpu - devices.begin(), on_cpu - devices.begin()));
}

void require_own_gpus(const std::vector<DeviceInfo>& devices) {
  const auto sharers = first_equals(devices, physical_key);
  if (!sharers) return;
  const std::string& host = devices[static_cast<std::size_t>(sharers->first)].gpu.host;
  int ranks = 0;
  std::set<std::string> gpus;
  for (const DeviceInfo& device : devices) {
    if (device.gpu.host != host) continue;
    ++ranks;
    gpus.insert(device.gpu.physical);
  }
  throw UsageError(
      fmt::format("ranks {} and {} share a GPU, {} ranks of a node have {}: --nproc_per_node={} and "
                  "--device cuda, or --backend host with launch --allow-gpu-sharing",
                  sharers->first, sharers->second, ranks, gpus.size(), gpus.size()));
}

std::string why_not_nccl(const std::vector<DeviceInfo>& devices, bool asked_for) {
  for (int rank = 0; const DeviceInfo& device : devices) {
    if (!device.nccl_problem.empty()) return fmt::format("rank {}: {}", rank, device.nccl_problem);
    ++rank;
  }
  auto sharers = first_equals(devices, [](const DeviceInfo& device) { return device.gpu.to_nccl; });
  if (!sharers && !asked_for) sharers = first_equals(devices, physical_key);
  return sharers ? fmt::format("ranks {} and {} share a GPU", sharers->first, sharers->second)
                 : std::string();
}

}  // namespace lockstep::comm
