#pragma once

#include <csignal>
#include <vector>

#include "kernels/base/unique_fd.h"

namespace lockstep::launcher {

/// The signals that launch acts on, blocked and read from a descriptor. One that was ignored when launch
/// began (nohup) stays ignored.
class Signals {
 public:
  /// `passed_on` and SIGCHLD.
  explicit Signals(const std::vector<int>& passed_on);
  Signals(const Signals&) = delete;
  ~Signals();

  int fd() const { return fd_.get(); }
  /// What has arrived, without waiting; SIGCHLD last, so that a signal is passed on before an ending is
  /// judged.
  std::vector<int> read();

 private:
  sigset_t before_;
  UniqueFd fd_;
};

}  // namespace lockstep::launcher
