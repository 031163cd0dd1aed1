#include "comm/world/launch_info.h"

#include <fmt/format.h>

#include "kernels/base/number.h"

namespace lockstep::comm {

std::string to_string(const LaunchInfo& info) {
  return fmt::format("{}:{},{},{}", info.addr, info.port, info.start_boottime_ns, info.columns);
}

std::optional<LaunchInfo> parse_launch_info(std::string_view text) {
  const auto last_comma = text.rfind(',');
  if (last_comma == std::string_view::npos || last_comma == 0) return std::nullopt;
  const auto first_comma = text.rfind(',', last_comma - 1);
  if (first_comma == std::string_view::npos) return std::nullopt;
  const std::string_view endpoint = text.substr(0, first_comma);
  const auto colon = endpoint.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;

  const auto port = parse_number<int>(endpoint.substr(colon + 1));
  const auto start = parse_number<std::int64_t>(text.substr(first_comma + 1, last_comma - first_comma - 1));
  const auto columns = parse_number<int>(text.substr(last_comma + 1));
  if (!port || *port < 1 || *port > 65535 || !start || *start < 0 || !columns || *columns < 0)
    return std::nullopt;
  return LaunchInfo{std::string(endpoint.substr(0, colon)), *port, *start, *columns};
}

}  // namespace lockstep::comm
