#pragma once

#include <sched.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "kernels/base/deadline.h"
#include "launcher/cores.h"
#include "launcher/program.h"

namespace lockstep::launcher {

/// File descriptors that become a worker's stdin, stdout and stderr; the caller keeps them.
struct StandardStreams {
  int in;
  int out;
  int err;
};

/// One running rank, in a process group of its own, that dies with launch.
class Worker {
 public:
  /// Starts it; `cpus` empty: not bound; `descriptors`: its limit, none: ours. UsageError when the kernel
  /// refuses to execute the program.
  Worker(int rank, const Command& command, const std::vector<std::string>& environment, const CpuList& cpus,
         StandardStreams streams, const std::optional<rlimit>& descriptors);
  Worker(Worker&& other) noexcept;
  Worker& operator=(Worker&&) = delete;
  /// A worker that still runs is killed, with its group.
  ~Worker();

  int rank() const { return rank_; }
  pid_t pid() const { return pid_; }
  Clock::time_point started() const { return started_; }
  bool running() const { return running_; }

  /// To the whole process group, while the worker runs.
  void send(int signal) const;
  /// Stopped by SIGSTOP or the like (state T).
  bool is_stopped() const;

  /// The worker has been reaped.
  void set_ended() { running_ = false; }

 private:
  int rank_;
  pid_t pid_ = -1;
  Clock::time_point started_;
  bool running_ = false;
};

}  // namespace lockstep::launcher
