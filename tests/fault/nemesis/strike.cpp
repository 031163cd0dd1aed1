#include "tests/fault/nemesis/strike.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "tests/fault/nemesis/hook.h"

namespace lockstep::nemesis {
namespace {

struct Process {
  pid_t pid;
  std::string name;  ///< "rank 2", "launch 0", "reaper 0"
  std::string host;  ///< "host 0"
};

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Of an environment as /proc has it: "A=1\0B=2\0".
std::string variable_in(const std::string& environment, const std::string& name) {
  const std::size_t at = ('\0' + environment).find('\0' + name + '=');
  return at == std::string::npos ? std::string() : environment.c_str() + at + name.size() + 1;
}

std::string name_of(pid_t pid, const std::string& environment, const std::string& host) {
  const std::string program = text_of("/proc/" + std::to_string(pid) + "/comm");
  if (program == "launch-reaper\n") return "reaper " + host;
  const std::string rank = variable_in(environment, "RANK");
  return rank.empty() ? "launch " + host : "rank " + rank;
}

std::vector<Process> processes_of_run(const std::string& struck) {
  std::vector<Process> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string folder = entry.path().filename();
    pid_t pid = 0;
    if (std::from_chars(folder.data(), folder.data() + folder.size(), pid).ec != std::errc()) continue;
    const std::string environment = text_of("/proc/" + folder + "/environ");
    if (variable_in(environment, struck_variable) != struck) continue;
    const std::string host = variable_in(environment, host_variable);
    found.push_back({pid, name_of(pid, environment, host), "host " + host});
  }
  return found;
}

std::vector<std::string> parts_of(std::string_view act) {
  std::vector<std::string> parts(1);
  for (const char c : act) {
    if (c == ';') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

void signal_named(const std::vector<std::string>& victims, int signal, const std::string& struck) {
  std::vector<pid_t> pids;
  std::string lines;
  bool self = false;
  for (const Process& process : processes_of_run(struck)) {
    for (const std::string& victim : victims) {
      const bool is_self = process.pid == getpid();
      if (victim != process.name && victim != process.host && !(victim == "self" && is_self)) continue;
      lines += process.name + " pid " + std::to_string(process.pid) + "\n";
      self = self || is_self;
      if (!is_self) pids.push_back(process.pid);
      break;
    }
  }
  note(struck, lines);
  for (const pid_t pid : pids) ::kill(pid, signal);
  if (self) ::kill(getpid(), signal);
}

}  // namespace

void note(const std::string& struck, const std::string& line) {
  const int fd = ::open(struck.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0 || ::write(fd, line.data(), line.size()) < 0) std::abort();
  ::close(fd);
}

int strike(std::string_view act, std::string_view struck, long passes) {
  note(std::string(struck), "after " + std::to_string(passes) + " passes\n");
  static constexpr std::array errors{
      std::pair{"EIO", EIO},       std::pair{"ENOSPC", ENOSPC}, std::pair{"ECONNRESET", ECONNRESET},
      std::pair{"EINTR", EINTR},   std::pair{"EAGAIN", EAGAIN}, std::pair{"ECONNABORTED", ECONNABORTED},
      std::pair{"ENOMEM", ENOMEM}, std::pair{"EMFILE", EMFILE}, std::pair{"EPERM", EPERM},
      std::pair{"flip", flipped}};
  for (const auto& [name, error] : errors) {
    if (act != name) continue;
    note(std::string(struck), std::string(name) + "\n");
    return error;
  }
  const bool stops = act.starts_with(stop_prefix);
  if (stops) act.remove_prefix(stop_prefix.size());
  signal_named(parts_of(act), stops ? SIGTERM : SIGKILL, std::string(struck));
  return 0;
}

}  // namespace lockstep::nemesis
