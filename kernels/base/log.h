#pragma once

#include <fmt/core.h>

#include <string_view>
#include <utility>

namespace lockstep {

/// The process's logger (stderr): the one piece of global state. `rank` prefixes every line when there are
/// peers. spdlog does it; only log.cpp includes its headers, which take seconds to compile.
void set_up_log(int rank, int world_size);

namespace log {

void info(std::string_view line);
void warn(std::string_view line);
void error(std::string_view line);

template <class First, class... Rest>
void warn(fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest) {
  warn(fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...));
}
template <class First, class... Rest>
void error(fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest) {
  error(fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...));
}

}  // namespace log
}  // namespace lockstep
