#pragma once

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace lockstep {

/// Sets up the process's logger (stderr), the one piece of global state. With peers every line begins with
/// the rank.
inline void set_up_log(int rank, int world_size) {
  auto logger =
      std::make_shared<spdlog::logger>("lockstep", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern(world_size > 1 ? fmt::format("rank {}: %l: %v", rank) : "%l: %v");
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace lockstep
