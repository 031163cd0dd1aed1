// LOCKSTEP_LAUNCH.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "comm/world/environment.h"

using namespace lockstep::comm;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto info = parse_launch_info({reinterpret_cast<const char*>(data), size});
  if (!info) return 0;
  const auto again = parse_launch_info(to_string(*info));
  if (!again || to_string(*again) != to_string(*info) || info->addr.empty()) std::abort();
  return 0;
}
