#pragma once

#include <sys/types.h>

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::launcher {

/// What the kernel says of one process (/proc/PID/stat).
struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  char state = 0;  ///< a letter, as proc(5) has it

  bool is_zombie() const { return state == 'Z'; }
  /// By SIGSTOP or the like; not by a debugger.
  bool is_stopped() const { return state == 'T'; }
};

/// Whether /proc numbers processes as this one does. One of another PID namespace (`unshare --pid` alone)
/// would tell of strangers: then what follows tells of no process.
bool shows_own_processes();

/// Nothing when it is gone.
std::optional<Process> read_process(pid_t pid);

/// The name of its program, as ps shows it; empty when it is gone.
std::string program_name(pid_t pid);

/// Of the environment that its program was started with; empty without it, and when it is gone.
std::string variable_of(pid_t pid, std::string_view name);

/// Whether this process has children, zombies too, beside `known` ones. True as well where /proc does not
/// tell.
bool has_children_beside(const std::set<pid_t>& known);

/// The processes below `root`, parents before their children, without `foreign` ones and what is below those.
/// Zombies only where `root` is to reap them.
std::vector<Process> descendants_of(pid_t root, const std::set<pid_t>& foreign = {});

}  // namespace lockstep::launcher
