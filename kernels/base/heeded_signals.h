#pragma once

#include <signal.h>

#include <span>

namespace lockstep {

/// Those of `signals` that are not ignored. One that was ignored when the process started (nohup, a shell's
/// background job) stays so; blocked, it would still reach a signalfd.
inline sigset_t heeded_signals(std::span<const int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal_number : signals) {
    struct sigaction action = {};
    sigaction(signal_number, nullptr, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(&set, signal_number);
  }
  return set;
}

}  // namespace lockstep
