#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "kernels/base/deadline.h"
#include "kernels/base/signals.h"
#include "launcher/exit_status.h"
#include "launcher/output.h"
#include "launcher/process_tree.h"
#include "launcher/signals.h"
#include "launcher/worker.h"

namespace lockstep::launcher {

/// Watches the workers until all have ended: passes signals on, stops the others at the first failure, kills
/// what outlives its time, and leaves no process of a rank behind.
class Supervisor {
 public:
  /// `foreign`: what was below this process before it started the workers; `told_code`: what a rank's error
  /// file tells that it leaves with.
  Supervisor(std::vector<Worker>& workers, std::set<pid_t> foreign, const Reaper& reaper, Signals& signals,
             Output& output, Seconds shutdown_timeout, std::function<int(int rank)> told_code);

  /// Every rank's status, in the order seen.
  std::vector<ExitStatus> run();
  /// Shows `last_lines` after the workers' text, on stderr. What nobody has read after the shutdown timeout,
  /// or at a further signal that asks to end, is dropped.
  void finish_output(std::string_view last_lines);

  /// The last signal that asked the workers to end, if any was passed on.
  std::optional<int> passed_on() const { return passed_on_; }
  /// Whether any signal that was passed on asked the run to stop.
  bool told_to_stop() const { return stop_signal_.has_value(); }

 private:
  Worker& worker_of(int rank) { return workers_[static_cast<std::size_t>(rank)]; }
  const Worker& worker_of(int rank) const { return workers_[static_cast<std::size_t>(rank)]; }
  /// For processes that successful workers left behind, such as the `tee` of a shell's output.
  static constexpr Seconds straggler_grace{1.0};

  bool any_running() const;
  /// The worker, or what is waited for in its place.
  bool is_there(const Worker& worker) const;
  /// Waits for the next event, no longer than `limit`, and acts on it.
  void step(Clock::time_point limit);
  void pass_on(int signal);
  void suspend();
  void reap();
  /// The reaper forgets a rank that has ended with all that it had started.
  void forget_if_gone(const Worker& worker) const;
  void note_stopped_workers();
  /// Names each worker that has been stopped for a while when nothing else goes on. Gives the time of the
  /// next.
  Clock::time_point name_stopped_workers();
  void note_end_of_worker(const ExitStatus& status);
  void note_end_of_orphan(const ExitStatus& status);
  void judge_ended_wrappers();
  bool is_waited_for(const ExitStatus& status);
  bool may_be_saving(int rank) const;
  bool stands_for_rank(int rank, pid_t pid) const;
  void follow_successor(const Worker& worker);
  void judge(ExitStatus status);
  void stop_because_of_failure();
  void kill_all();
  void sweep(Seconds grace);
  void name_left_behind(std::string_view fate);

  std::vector<Worker>& workers_;
  ProcessTree tree_;
  const Reaper& reaper_;
  Signals& signals_;
  Output& output_;
  Clock::duration shutdown_timeout_;
  std::function<int(int rank)> told_code_;

  std::vector<ExitStatus> statuses_;
  /// By rank: the worker, a wrapper script, has ended as it was told to, or well and at once, and what it
  /// started may not have.
  std::map<int, ExitStatus> ended_wrappers_;
  /// By rank: what such a worker that ended at once has left in its place; it leads a group of its own.
  std::map<int, pid_t> successors_;
  /// By rank: the most telling status of what wrappers had started, since they were told to end.
  std::map<int, ExitStatus> orphans_;
  struct Stop {
    int signal;
    Clock::time_point name_at;
  };
  std::map<int, Stop> stopped_;  ///< by rank
  std::optional<int> passed_on_;
  struct StopSignal {
    int number;
    Clock::time_point when;
  };
  std::optional<StopSignal> stop_signal_;  ///< the last passed on that asked the run to stop
  Interrupts interrupts_;
  int signals_passed_on_ = 0;
  bool stopping_ = false;  ///< the workers were told to end, by a signal or a failure
  bool stopped_by_failure_ = false;
  std::vector<bool> killed_;  ///< by rank: SIGKILL was sent
  Clock::time_point stop_at_ = Clock::time_point::max();
  Clock::time_point kill_at_ = Clock::time_point::max();
  Clock::time_point give_up_at_ = Clock::time_point::max();  ///< on ended ranks' processes, after SIGKILL
  Clock::time_point look_at_ = Clock::time_point::max();     ///< whether what ended at once left a successor
};

}  // namespace lockstep::launcher
