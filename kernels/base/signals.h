#pragma once

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <span>

#include "kernels/base/deadline.h"
#include "kernels/base/unique_fd.h"

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

/// Signals belong to the program's own threads: a thread started in this scope takes none.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

/// Tells a second ^C, which asks to end at once, from a first one that arrives twice: from the terminal and
/// passed on by a launcher that shares it, or from `timeout -s INT`, which signals a process and its group.
class Interrupts {
 public:
  /// A SIGINT came.
  bool is_second(Clock::time_point when) {
    if (!first_) first_ = when;
    return when - *first_ > same_key;
  }

 private:
  static constexpr std::chrono::milliseconds same_key{500};

  std::optional<Clock::time_point> first_;
};

/// ^Z: SIGTSTP waits until the process has prepared for being suspended. Ignored when the process started, it
/// stays ignored.
class JobControl {
 public:
  /// Blocks SIGTSTP in this thread and in those that it starts.
  JobControl();

  /// Readable while a SIGTSTP waits; -1 if it is ignored.
  int fd() const { return pending_.get(); }
  /// Lets it act: returns when the process is continued, or at once when SIGCONT has come already, or there
  /// is no shell that could continue the process. `Clock` stands still meanwhile.
  void suspend() const;

 private:
  UniqueFd pending_;
};

/// Puts /dev/null in the place of standard streams that are closed (`launch >&-`): the next file that opens
/// would get their number, and the text meant for them. To be called before anything opens.
inline void fill_standard_streams() {
  int fd = STDIN_FILENO;
  while (fd >= STDIN_FILENO && fd <= STDERR_FILENO) fd = ::open("/dev/null", O_RDWR);
  if (fd > STDERR_FILENO) ::close(fd);
}

}  // namespace lockstep
