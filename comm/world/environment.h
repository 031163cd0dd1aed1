#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::comm {

using Environment = std::function<std::optional<std::string>(const char* name)>;

/// getenv of this process.
Environment process_environment();

/// OMP_NUM_THREADS; 0: not set, or no number above 0. UsageError beyond most_threads.
int omp_threads(const Environment& environment);

/// Typed reading of environment variables; UsageErrors show the variable and its value.
class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(environment) {}

  bool has(const char* name) const { return environment_(name).has_value(); }
  std::optional<std::string> text(const char* name) const { return environment_(name); }
  std::string text_or(const char* name, std::string otherwise) const;

  /// A number from `least` to `most`, or nothing when the variable is not set.
  std::optional<int> number(const char* name, int least, int most) const;
  int required_number(const char* name, int least, int most) const;

  /// Those of `names` that are not set.
  std::string missing(std::initializer_list<const char*> names) const;
  bool has_any(std::initializer_list<const char*> names) const;

 private:
  const Environment& environment_;
};

/// The contents of LOCKSTEP_LAUNCH: what `launch` gives its ranks beside torchrun's variables.
struct LaunchInfo {
  std::string addr;  ///< equals MASTER_ADDR unless the variable is left over from another launch
  int port = 0;      ///< equals MASTER_PORT, where no agent's store listens
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
