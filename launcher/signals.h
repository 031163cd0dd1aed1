#pragma once

#include <vector>

#include "kernels/base/signals.h"
#include "kernels/base/unique_fd.h"

namespace lockstep::launcher {

/// The signals that launch acts on, blocked and read from a descriptor. One that was ignored when launch
/// began (nohup) stays ignored. They stay blocked to the end of the process: a signal that comes after the
/// last rank's status must not replace its exit code.
class Signals {
 public:
  /// `passed_on` and SIGCHLD.
  explicit Signals(std::vector<int> passed_on);

  int fd() const { return fd_.get(); }
  /// What has arrived, without waiting; SIGCHLD last, so that a signal is passed on before a status is
  /// judged.
  std::vector<int> read();

  /// ^Z, which is not among them: launch suspends its ranks first and itself then.
  const JobControl& job() const { return job_; }

 private:
  JobControl job_;
  UniqueFd fd_;
};

/// Whether a worker that gets it is expected to end.
bool asks_to_end(int signal);
/// The same, or whether a batch system asks with it that the job saves and leaves soon, so that a failure
/// behind it is no reason to start again.
bool asks_to_stop(int signal);

}  // namespace lockstep::launcher
