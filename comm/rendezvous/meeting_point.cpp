#include "comm/rendezvous/meeting_point.h"

#include <fmt/format.h>

#include <array>

#include "kernels/base/number.h"

namespace lockstep::comm {

std::string to_text(const MeetingPoint& point) {
  return fmt::format("{}\n{}\n{}\n{}\n", point.address, point.port, point.credentials.run_id,
                     point.credentials.secret);
}

std::optional<MeetingPoint> parse_meeting_point(std::string_view text) {
  std::array<std::string_view, 4> lines;
  for (std::string_view& line : lines) {
    const auto end = text.find('\n');
    if (end == std::string_view::npos) return std::nullopt;
    line = text.substr(0, end);
    text.remove_prefix(end + 1);
  }
  const auto port = parse_number<int>(lines[1]);
  if (!text.empty() || lines[0].empty() || !port || *port < 1 || *port > 65535) return std::nullopt;
  return MeetingPoint{std::string(lines[0]), *port, {std::string(lines[2]), std::string(lines[3])}};
}

}  // namespace lockstep::comm
