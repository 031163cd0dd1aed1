#include "comm/store/disconnect_log.h"

namespace lockstep::comm {

void DisconnectLog::report(const std::string& name, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (handler_) return handler_(name, reason);
  untold_.emplace_back(name, reason);
}

void DisconnectLog::set_handler(DisconnectHandler handler) {
  const std::lock_guard lock(mutex_);
  handler_ = std::move(handler);
  if (!handler_) return;
  for (const auto& [name, reason] : std::exchange(untold_, {})) handler_(name, reason);
}

}  // namespace lockstep::comm
