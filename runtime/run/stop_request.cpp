#include "runtime/run/stop_request.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <iterator>

#include <fmt/format.h>

#include "kernels/base/descriptors.h"
#include "kernels/base/error.h"
#include "kernels/base/log.h"
#include "kernels/base/signals.h"

namespace lockstep::runtime {
namespace {

constexpr std::array stop_signals{SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGXCPU};

}  // namespace

StopRequest::StopRequest()
    : heeded_(heeded_signals(stop_signals)), agent_(find_agent(comm::process_environment())) {
  pthread_sigmask(SIG_BLOCK, &heeded_, nullptr);
  // Text that nobody reads any more must not end a run that has something to save.
  std::signal(SIGPIPE, SIG_IGN);
  signals_ = UniqueFd(signalfd(-1, &heeded_, SFD_NONBLOCK | SFD_CLOEXEC));
  stop_ = UniqueFd(eventfd(0, EFD_CLOEXEC));
  if (!signals_ || !stop_)
    throw DeviceError(fmt::format("cannot wait for signals: {}", obstacle_to_open(errno)));
  thread_ = std::thread(&StopRequest::listen, this);
}

StopRequest::~StopRequest() {
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void StopRequest::listen() {
  pollfd events[] = {{stop_.get(), POLLIN, 0},
                     {signals_.get(), POLLIN, 0},
                     {job_.fd(), POLLIN, 0},
                     {agent_ ? agent_->gone.get() : -1, POLLIN, 0}};
  while (true) {
    if (poll(events, std::size(events), -1) < 0) continue;
    if (events[0].revents != 0) return;
    signalfd_siginfo signal{};
    while (read(signals_.get(), &signal, sizeof(signal)) == sizeof(signal)) {
      take(static_cast<int>(signal.ssi_signo));
    }
    if (events[2].revents != 0) job_.suspend();
    if (events[3].revents == 0) continue;
    events[3].fd = -1;
    miss_agent();
  }
}

void StopRequest::miss_agent() {
  log::warn("{} (process {}), which started this rank, is gone: stopping as at SIGTERM", agent_->name,
            agent_->pid);
  take(SIGTERM);
}

void StopRequest::take(int signal_number) {
  const bool insists = signal_number == SIGINT && interrupts_.is_second(Clock::now());
  if (insists || !accepts_) die_of(signal_number);
  made_ = true;
}

void StopRequest::die_of(int signal_number) const {
  std::signal(signal_number, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &heeded_, nullptr);
  raise(signal_number);
  _exit(128 + signal_number);  // the kernel ends a container's first process by no signal of its own
}

}  // namespace lockstep::runtime
