#include "kernels/base/device_count.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <system_error>

namespace lockstep {
namespace {

/// Entries of "0,2,GPU-8a1f" up to the first that is not a device: CUDA ignores the list from there on.
int count_visible(std::string_view list) {
  int count = 0;
  while (!list.empty()) {
    const auto comma = list.find(',');
    const std::string_view entry = list.substr(0, comma);
    if (entry.empty() || entry.front() == '-' || entry == "none" || entry == "NoDevFiles") break;
    ++count;
    list = comma == std::string_view::npos ? std::string_view{} : list.substr(comma + 1);
  }
  return count;
}

bool is_gpu_node(std::string_view name) {
  constexpr std::string_view prefix = "nvidia";
  if (!name.starts_with(prefix) || name.size() == prefix.size()) return false;
  name.remove_prefix(prefix.size());
  return std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

int count_nodes(const std::filesystem::path& dev) {
  std::error_code missing;
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dev, missing)) {
    count += is_gpu_node(entry.path().filename().string()) ? 1 : 0;
  }
  return count;
}

}  // namespace

int count_devices(const std::filesystem::path& dev) {
  const int nodes = count_nodes(dev);
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible ? std::min(nodes, count_visible(visible)) : nodes;
}

}  // namespace lockstep
