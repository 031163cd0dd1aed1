#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::comm {

/// What `launch` tells its ranks in LOCKSTEP_LAUNCH, beside torchrun's variables.
struct LaunchInfo {
  std::string addr;  ///< equals MASTER_ADDR, or the variable is left over from another launch
  int port = 0;      ///< equals MASTER_PORT; kept free for our store
  std::int64_t start_boottime_ns = 0;  ///< CLOCK_BOOTTIME when `launch` was typed: where startup_ms begins
  int columns = 0;                     ///< of launch's terminal; 0: no terminal, draw no bar

  bool operator==(const LaunchInfo&) const = default;
};

inline constexpr const char* launch_variable = "LOCKSTEP_LAUNCH";

/// `<addr>:<port>,<start ns>,<columns>`; an IPv6 address needs no brackets, the last colon counts.
std::string to_string(const LaunchInfo& info);

/// Nothing when the text is malformed.
std::optional<LaunchInfo> parse_launch_info(std::string_view text);

}  // namespace lockstep::comm
