#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace lockstep {

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

/// The text of /proc/PID/FILE; empty when the process is gone.
std::string read_of_process(pid_t pid, const char* file);

}  // namespace lockstep
