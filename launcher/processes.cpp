#include "launcher/processes.h"

#include <dirent.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <map>
#include <memory>
#include <sstream>
#include <string_view>

#include <fmt/format.h>

#include "kernels/base/file.h"

namespace lockstep::launcher {
namespace {

std::vector<Process> all_processes() {
  std::vector<Process> processes;
  if (!shows_own_processes()) return processes;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc"), closedir);
  if (!folder) return processes;
  while (const dirent* entry = readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    pid_t pid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc()) continue;
    if (const auto process = read_process(pid)) processes.push_back(*process);
  }
  return processes;
}

}  // namespace

std::string variable_of(pid_t pid, std::string_view name) {
  std::istringstream variables(read_of_process(pid, "environ"));
  for (std::string variable; std::getline(variables, variable, '\0');) {
    if (variable.starts_with(name) && variable.substr(name.size(), 1) == "=")
      return variable.substr(name.size() + 1);
  }
  return {};
}

bool ignores(pid_t pid, int signal) {
  constexpr std::string_view field = "SigIgn:";  // signal 1 is the lowest bit of a hexadecimal number
  const std::string status = read_of_process(pid, "status");
  const auto at = status.find(field);
  if (at == std::string::npos) return false;
  const auto mask = std::strtoull(status.c_str() + at + field.size(), nullptr, 16);
  return (mask >> (signal - 1) & 1) != 0;
}

bool has_children_beside(const std::set<pid_t>& known) {
  // "123 456 ", in the order in which they came: none is missed while nobody but the reader reaps them.
  std::istringstream children(read_text(fmt::format("/proc/self/task/{}/children", getpid())));
  bool is_told = false;
  for (pid_t pid = 0; children >> pid; is_told = true) {
    if (!known.contains(pid)) return true;
  }
  return !is_told;
}

std::vector<Process> descendants_of(pid_t root, const std::set<pid_t>& foreign) {
  std::multimap<pid_t, Process> by_parent;
  for (const Process& process : all_processes()) by_parent.emplace(process.parent, process);
  std::vector<Process> found;
  const auto add_children = [&](pid_t parent) {
    for (auto [at, end] = by_parent.equal_range(parent); at != end; ++at) {
      const Process& child = at->second;
      if (foreign.contains(child.pid) || (child.is_zombie() && parent != root)) continue;
      found.push_back(child);
    }
  };
  add_children(root);
  for (std::size_t i = 0; i < found.size(); ++i) add_children(found[i].pid);
  return found;
}

}  // namespace lockstep::launcher
