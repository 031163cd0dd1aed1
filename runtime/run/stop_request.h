#pragma once

#include <atomic>
#include <thread>

#include "kernels/base/unique_fd.h"

namespace lockstep::runtime {

/// Turns SIGTERM, SIGUSR1 and SIGINT into a flag that the training loop reads once a step. A second SIGTERM
/// or SIGINT, and any before `accept`, ends the process at once. Construct it before any other thread: only
/// its own thread may receive the signals, since oneDNN's generated code points the stack pointer into its
/// workspace, where a handler's frame would overwrite the heap.
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  /// From now on a first signal only sets the flag.
  void accept() { accepts_ = true; }
  bool made() const { return made_; }

 private:
  void listen();

  std::atomic<bool> accepts_{false};
  std::atomic<bool> made_{false};
  UniqueFd signals_;
  UniqueFd stop_;
  std::thread thread_;
};

}  // namespace lockstep::runtime
