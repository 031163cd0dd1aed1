#pragma once

#include <signal.h>

#include <atomic>
#include <optional>
#include <thread>

#include "kernels/base/signals.h"
#include "kernels/base/unique_fd.h"
#include "runtime/run/agent.h"

namespace lockstep::runtime {

/// Turns SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1 and SIGXCPU (`ulimit -St`, SGE's s_cpu) into a request
/// that the training loop reads once a step, and an evaluation between two batches. Any of them before
/// `accept` ends the process at once, and so does a second ^C; other signals may come again, from service
/// managers that signal every process and from launchers that pass on. The end of the launcher that waits
/// for this rank counts as SIGTERM. ^Z suspends the process. Make it before any other thread: a thread of its
/// own takes the signals and no other may, since code that is generated at run time (oneDNN's) points the
/// stack pointer into its workspace, where a handler's frame would be written over the heap.
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  /// From now on a first signal is a request.
  void accept() { accepts_ = true; }
  bool made() const { return made_; }

 private:
  void listen();
  void take(int signal_number);
  void miss_agent();
  /// Ends the process with the signal's default action.
  void die_of(int signal_number) const;

  std::atomic<bool> accepts_{false};
  std::atomic<bool> made_{false};
  Interrupts interrupts_;
  sigset_t heeded_;
  std::optional<Agent> agent_;
  JobControl job_;
  UniqueFd signals_;
  UniqueFd stop_;
  std::thread thread_;
};

}  // namespace lockstep::runtime
