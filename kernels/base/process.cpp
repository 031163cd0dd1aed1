#include "kernels/base/process.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "kernels/base/file.h"

namespace lockstep {

std::string read_of_process(pid_t pid, const char* file) {
  return shows_own_processes() ? read_text(fmt::format("/proc/{}/{}", pid, file)) : std::string();
}

bool shows_own_processes() {
  static const bool is_own = [] {
    std::error_code unreadable;
    return std::filesystem::read_symlink("/proc/self", unreadable) == std::to_string(getpid());
  }();
  return is_own;
}

std::optional<Process> read_process(pid_t pid) {
  // "123 (name) S 1 123 ...", and the name may hold anything.
  const std::string stat = read_of_process(pid, "stat");
  const auto name_end = stat.rfind(')');
  if (name_end == std::string::npos || name_end + 4 >= stat.size()) return std::nullopt;
  char* rest = nullptr;
  const long parent = std::strtol(stat.c_str() + name_end + 4, &rest, 10);
  const long group = std::strtol(rest, nullptr, 10);
  return Process{.pid = pid,
                 .parent = static_cast<pid_t>(parent),
                 .group = static_cast<pid_t>(group),
                 .state = stat[name_end + 2]};
}

std::string program_name(pid_t pid) {
  std::string name = read_of_process(pid, "comm");
  if (name.ends_with('\n')) name.pop_back();
  return name;
}

}  // namespace lockstep
