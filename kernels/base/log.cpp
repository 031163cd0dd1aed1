#include "kernels/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace lockstep {

void set_up_log(int rank, int world_size) {
  auto logger =
      std::make_shared<spdlog::logger>("lockstep", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern(world_size > 1 ? fmt::format("rank {}: %l: %v", rank) : "%l: %v");
  spdlog::set_default_logger(std::move(logger));
}

namespace log {

void info(std::string_view line) {
  spdlog::default_logger_raw()->log(spdlog::level::info, line);
}
void warn(std::string_view line) {
  spdlog::default_logger_raw()->log(spdlog::level::warn, line);
}
void error(std::string_view line) {
  spdlog::default_logger_raw()->log(spdlog::level::err, line);
}

}  // namespace log
}  // namespace lockstep
