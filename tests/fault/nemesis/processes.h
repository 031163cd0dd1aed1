#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "kernels/base/deadline.h"

namespace lockstep::nemesis {

/// From here on all that a run leaves behind becomes a child of this process.
void adopt_orphans();

struct Command {
  std::vector<std::string> words;
  std::vector<std::string> variables;  ///< beside those of this process
  std::filesystem::path folder;        ///< in which it runs
  std::filesystem::path output;        ///< takes its stdout and stderr
};

/// A child, with no signal blocked.
pid_t start(const Command& command);

/// Ends of children, this process's and orphans.
class Ends {
 public:
  /// All are false at the limit. It counts in short waits that ended in vain, so that a machine that was
  /// suspended as a whole has not waited.
  bool wait_for_any(const std::vector<pid_t>& pids, Seconds limit);
  bool wait_for_all(const std::vector<pid_t>& pids, Seconds limit);
  /// Until no child is left.
  bool wait_for_last(Seconds limit);
  bool has(pid_t pid) const { return codes_.contains(pid); }
  /// The exit code, 128 + n after signal n.
  int code(pid_t pid) const { return codes_.at(pid); }
  /// In all waits that came to their end.
  Seconds waited() const { return waited_; }

 private:
  bool wait_until(const std::function<bool()>& done, Seconds limit);
  void take();

  std::map<pid_t, int> codes_;
  Seconds waited_{0};
  bool has_children_ = true;
};

/// "trainer (pid 12)" for each child that lives.
std::vector<std::string> living_children();
/// SIGKILL of all children, and of theirs, until there is none.
void kill_children();

}  // namespace lockstep::nemesis
