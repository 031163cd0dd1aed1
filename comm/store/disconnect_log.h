#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::comm {

/// Called with a client's name and how its connection broke.
using DisconnectHandler = std::function<void(const std::string& name, const std::string& reason)>;

/// Keeps losses until somebody wants to know them.
class DisconnectLog {
 public:
  void report(const std::string& name, const std::string& reason);
  /// Tells at once what was lost before. When this returns, no call of an earlier handler is under way.
  void set_handler(DisconnectHandler handler);

 private:
  std::mutex mutex_;
  DisconnectHandler handler_;
  std::vector<std::pair<std::string, std::string>> untold_;
};

}  // namespace lockstep::comm
