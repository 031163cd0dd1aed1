#include "kernels/base/gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace lockstep {
namespace {

constexpr int oldest_capability = 75;
constexpr int oldest_driver = 12040;

bool is_release(const std::string& word) {
  return word.find('.') != std::string::npos &&
         std::ranges::all_of(word, [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
}

}  // namespace

std::vector<std::string> visible_devices(std::string_view list) {
  std::vector<std::string> devices;
  while (!list.empty()) {
    const auto comma = list.find(',');
    const std::string_view entry = list.substr(0, comma);
    if (entry.empty() || entry.front() == '-' || entry == "none" || entry == "NoDevFiles") break;
    devices.emplace_back(entry);
    list = comma == std::string_view::npos ? std::string_view{} : list.substr(comma + 1);
  }
  return devices;
}

bool is_mig(std::string_view entry) {
  return entry.starts_with("MIG-");
}

int count_visible(std::string_view list, int gpus) {
  const std::vector<std::string> devices = visible_devices(list);
  const auto count = static_cast<int>(devices.size());
  // Parts have no device files of their own.
  return gpus > 0 && std::ranges::any_of(devices, is_mig) ? count : std::min(gpus, count);
}

std::string gpu_problem(int compute_capability) {
  if (compute_capability >= oldest_capability) return {};
  return fmt::format(
      "too old: compute capability {}.{}, and 7.5 (T4, RTX 20) is the oldest that CUDA 13 makes code for",
      compute_capability / 10, compute_capability % 10);
}

/// A driver serves all programs of its own major version: https://docs.nvidia.com/deploy/cuda-compatibility/
std::string driver_problem(int driver, int runtime) {
  if (driver == 0) return "not there";
  if (driver < oldest_driver) {
    return fmt::format("too old: it is for CUDA {}, and {} is the oldest that will do; install a newer one",
                       cuda_version_text(driver), cuda_version_text(oldest_driver));
  }
  if (driver / 1000 >= runtime / 1000) return {};
  return fmt::format(
      "too old: it is for CUDA {}, and this build uses {}; install a newer one, or build with an older "
      "toolkit",
      cuda_version_text(driver), cuda_version_text(runtime));
}

std::string cuda_version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string to_text(const CudaVersions& versions) {
  const std::string problem = versions.problem();
  return fmt::format("CUDA {}, {}, {}, driver{} {}", cuda_version_text(versions.runtime),
                     versions.gemm_library, versions.dnn_library,
                     versions.driver_release.empty() ? "" : " " + versions.driver_release,
                     problem.empty() ? "for CUDA " + cuda_version_text(versions.driver) : "is " + problem);
}

std::string driver_release(std::string_view text) {
  std::istringstream words{std::string(text.substr(0, text.find('\n')))};
  for (std::string word; words >> word;) {
    if (is_release(word)) return word;
  }
  return {};
}

}  // namespace lockstep
