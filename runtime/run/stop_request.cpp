#include "runtime/run/stop_request.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include <fmt/format.h>

#include "kernels/base/error.h"

namespace lockstep::runtime {
namespace {

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal_number : {SIGTERM, SIGUSR1, SIGINT}) sigaddset(&set, signal_number);
  return set;
}

/// Ends the process with the signal's default action.
void die_of(int signal_number) {
  std::signal(signal_number, SIG_DFL);
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  raise(signal_number);
}

}  // namespace

StopRequest::StopRequest() {
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signals_ = UniqueFd(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  stop_ = UniqueFd(eventfd(0, EFD_CLOEXEC));
  if (!signals_ || !stop_)
    throw DeviceError(fmt::format("cannot wait for signals: {}", errno_message(errno)));
  thread_ = std::thread(&StopRequest::listen, this);
}

StopRequest::~StopRequest() {
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void StopRequest::listen() {
  pollfd events[] = {{stop_.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}};
  while (true) {
    if (poll(events, 2, -1) < 0) continue;
    if (events[0].revents != 0) return;
    signalfd_siginfo signal{};
    if (read(signals_.get(), &signal, sizeof(signal)) != sizeof(signal)) continue;
    const int number = static_cast<int>(signal.ssi_signo);
    const bool again = made_.exchange(accepts_) && number != SIGUSR1;
    if (!accepts_ || again) die_of(number);
  }
}

}  // namespace lockstep::runtime
