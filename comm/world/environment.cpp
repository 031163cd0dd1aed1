#include "comm/world/environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "kernels/base/cores.h"
#include "kernels/base/error.h"
#include "kernels/base/number.h"

namespace lockstep::comm {

Environment process_environment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

int omp_threads(const Environment& environment) {
  const auto text = environment("OMP_NUM_THREADS");
  const long wanted = text ? std::strtol(text->c_str(), nullptr, 10) : 0;  // of a list, the first
  if (wanted > most_threads) {
    throw UsageError(fmt::format("OMP_NUM_THREADS={} is no number from 1 to {}", *text, most_threads));
  }
  return static_cast<int>(std::max(0L, wanted));
}

std::string Variables::text_or(const char* name, std::string otherwise) const {
  return text(name).value_or(std::move(otherwise));
}

std::optional<int> Variables::number(const char* name, int least, int most) const {
  const auto value = text(name);
  if (!value) return std::nullopt;
  const auto parsed = parse_number<int>(*value);
  if (!parsed || *parsed < least || *parsed > most) {
    throw UsageError(fmt::format("{}={} is no number from {} to {}", name, *value, least, most));
  }
  return parsed;
}

int Variables::required_number(const char* name, int least, int most) const {
  const auto value = number(name, least, most);
  if (!value) throw UsageError(fmt::format("{} is not set", name));
  return *value;
}

std::string Variables::missing(std::initializer_list<const char*> names) const {
  std::string list;
  for (const char* name : names) {
    if (!has(name)) list += (list.empty() ? "" : ", ") + std::string(name);
  }
  return list;
}

bool Variables::has_any(std::initializer_list<const char*> names) const {
  for (const char* name : names) {
    if (has(name)) return true;
  }
  return false;
}

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
