#include "kernels/base/signals.h"

#include <signal.h>
#include <sys/signalfd.h>

#include <array>

#include "kernels/base/deadline.h"

namespace lockstep {
namespace {

sigset_t stop_signal() {
  return heeded_signals(std::array{SIGTSTP});
}

}  // namespace

JobControl::JobControl() {
  const sigset_t set = stop_signal();
  if (sigismember(&set, SIGTSTP) == 0) return;
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  // Polled and never read: the kernel itself drops the signal when SIGCONT follows before it has acted.
  pending_ = UniqueFd(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
}

void JobControl::suspend() const {
  const sigset_t set = stop_signal();
  Clock::halt();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);  // the process stops in here
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  Clock::resume();
}

}  // namespace lockstep
