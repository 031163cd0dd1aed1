#include "kernels/base/gpus.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <system_error>

namespace lockstep {
namespace {

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
  return visible ? count_visible(visible, nodes) : nodes;
}

}  // namespace lockstep
