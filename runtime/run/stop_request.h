#pragma once

#include <atomic>
#include <thread>

#include "kernels/base/unique_fd.h"

namespace lockstep::runtime {

/// Turns SIGTERM, SIGUSR1 and SIGINT into a request that the training loop reads once a step, and an
/// evaluation between two batches. A second SIGTERM or SIGINT, and any before `accept`, ends the process at
/// once. Make it before any other thread: a thread of its own takes the signals and no other may, since code
/// that is generated at run time (oneDNN's) points the stack pointer into its workspace, where a handler's
/// frame would be written over the heap.
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

  std::atomic<bool> accepts_{false};
  std::atomic<bool> made_{false};
  UniqueFd signals_;
  UniqueFd stop_;
  std::thread thread_;
};

}  // namespace lockstep::runtime
