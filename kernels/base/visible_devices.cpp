#include "kernels/base/visible_devices.h"

#include <algorithm>

namespace lockstep {

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

}  // namespace lockstep
