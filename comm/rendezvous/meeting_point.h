#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "comm/net/credentials.h"

namespace lockstep::comm {

/// What rank 0 tells the others when nobody else has: where the store is, and the run's secret.
struct MeetingPoint {
  std::string address;
  int port = 0;
  Credentials credentials;
};

/// Four lines: address, port, run id, secret.
std::string to_text(const MeetingPoint& point);
/// Nothing when the text is something else.
std::optional<MeetingPoint> parse_meeting_point(std::string_view text);

}  // namespace lockstep::comm
