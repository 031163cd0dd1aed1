#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "kernels/base/unique_fd.h"
#include "launcher/worker.h"

namespace lockstep::launcher {

/// Any child of this process in that process group; orphans that it has adopted and zombies count.
bool has_children_in(pid_t group);

/// The processes that ranks consist of: a worker, and what it has started, as wrapper scripts do. launch is
/// their sub-reaper, so they stay below it when a wrapper dies. What has left its worker's process group
/// (setsid) is found in /proc, by its ancestors, or by the LOCAL_RANK that it has inherited.
class ProcessTree {
 public:
  /// What is below this process already, such as the reaper and the `tee` of a shell that became launch, is
  /// none of a rank's.
  ProcessTree(const std::vector<Worker>& workers, std::set<pid_t> foreign);

  /// What is below this process now.
  static std::set<pid_t> own_descendants();

  /// Looks again at who is there.
  void update();

  // As of the last update; process groups are always as they are now.

  /// To every process of the rank.
  void send(const Worker& worker, int signal) const;
  /// SIGCONT to those that are stopped alone: elsewhere it would undo the stop by which a debugger, or
  /// LeakSanitizer, is about to attach.
  void continue_stopped(const Worker& worker) const;
  /// The rank that a child of this process, which may be a zombie, belongs to.
  std::optional<int> rank_of(pid_t pid) const;
  /// Whether the rank has processes, zombies that launch is to reap included.
  bool is_alive(int rank) const;
  /// A process of the rank that has left the worker's process group and leads one of its own (setsid).
  std::optional<pid_t> leader_beside(const Worker& worker) const;
  /// Processes of all ranks, and those whose rank cannot be told.
  const std::map<pid_t, std::optional<int>>& all() const { return ranks_; }

 private:
  std::optional<int> rank_led_by(pid_t group) const;
  /// A zombie, which has no environment, tells it only where there is one rank.
  std::optional<int> rank_inherited_by(pid_t pid) const;

  const std::vector<Worker>& workers_;
  std::set<pid_t> foreign_;
  std::map<pid_t, std::optional<int>> ranks_;  ///< by process
};

/// A small process that outlives launch for a moment: when launch dies without having dismissed it (SIGKILL,
/// memory), it kills the workers' process groups. The parent-death signal reaches the workers alone, not what
/// they have started. It is in a session of its own, and holds none of launch's descriptors. It is launch's
/// child, so that launch can wait for it: a container's first process may reap nobody.
class Reaper {
 public:
  Reaper();
  Reaper(const Reaper&) = delete;
  /// Dismisses it.
  ~Reaper();

  pid_t pid() const { return pid_; }
  void watch(pid_t group) const { tell(group); }
  /// The group has no members any more: its number may be given to others.
  void forget(pid_t group) const { tell(-group); }

 private:
  void tell(pid_t message) const;

  UniqueFd orders_;
  pid_t pid_ = -1;
};

}  // namespace lockstep::launcher
