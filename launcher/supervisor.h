#pragma once

#include <csignal>
#include <optional>
#include <vector>

#include "kernels/base/deadline.h"
#include "kernels/base/unique_fd.h"
#include "launcher/exit_status.h"
#include "launcher/output.h"
#include "launcher/reaper.h"
#include "launcher/worker.h"

namespace lockstep::launcher {

/// The signals that launch acts on, blocked and read from a descriptor. One that was ignored when launch
/// began (nohup) stays ignored. They stay blocked to the end of the process: a signal that comes after the
/// last rank's status must not replace its exit code.
class Signals {
 public:
  /// `passed_on` and SIGCHLD.
  explicit Signals(const std::vector<int>& passed_on);

  int fd() const { return fd_.get(); }
  /// What has arrived, without waiting; SIGCHLD last, so that a signal is passed on before a status is
  /// judged.
  std::vector<int> read();

 private:
  UniqueFd fd_;
};

/// Watches the workers until all have ended: passes signals on, stops the others at the first failure, kills
/// what outlives its time, and leaves no process of a worker's group behind.
class Supervisor {
 public:
  Supervisor(std::vector<Worker>& workers, const Reaper& reaper, Signals& signals, Output& output,
             Seconds shutdown_timeout);

  /// Every worker's status, in the order seen.
  std::vector<ExitStatus> run();

  /// The last signal that asked the workers to end, if any was passed on.
  std::optional<int> passed_on() const { return passed_on_; }

 private:
  bool any_running() const;
  /// Waits for the next event, no longer than `limit`, and acts on it.
  void step(Clock::time_point limit);
  void pass_on(int signal);
  void reap();
  void judge(ExitStatus status);
  void stop_because_of_failure();
  void kill_all();
  void sweep_groups(Seconds grace);
  void finish_output();

  std::vector<Worker>& workers_;
  const Reaper& reaper_;
  Signals& signals_;
  Output& output_;
  Clock::duration shutdown_timeout_;

  std::vector<ExitStatus> statuses_;
  std::optional<int> passed_on_;
  bool stopping_ = false;  ///< the workers were told to end, by a signal or a failure
  bool stopped_by_failure_ = false;
  std::vector<bool> killed_;  ///< by rank: SIGKILL was sent
  Clock::time_point stop_at_ = Clock::time_point::max();
  Clock::time_point kill_at_ = Clock::time_point::max();
};

}  // namespace lockstep::launcher
