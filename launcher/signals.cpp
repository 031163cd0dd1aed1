#include "launcher/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include <fmt/format.h>

#include "kernels/base/descriptors.h"
#include "kernels/base/error.h"
#include "kernels/base/signals.h"

namespace lockstep::launcher {

Signals::Signals(std::vector<int> passed_on) {
  // A parent that ignores SIGCHLD hands that down, and then there would be no statuses to see.
  signal(SIGCHLD, SIG_DFL);
  passed_on.push_back(SIGCHLD);
  const sigset_t set = heeded_signals(passed_on);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  fd_ = UniqueFd(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!fd_) throw DeviceError(fmt::format("no signalfd: {}", obstacle_to_open(errno)));
}

std::vector<int> Signals::read() {
  std::vector<int> arrived;
  signalfd_siginfo info;
  while (::read(fd_.get(), &info, sizeof info) == sizeof info)
    arrived.push_back(static_cast<int>(info.ssi_signo));
  std::ranges::stable_partition(arrived, [](int signal) { return signal != SIGCHLD; });
  return arrived;
}

bool asks_to_end(int signal) {
  return signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT;
}

bool asks_to_stop(int signal) {
  return asks_to_end(signal) || signal == SIGUSR1 || signal == SIGXCPU;
}

}  // namespace lockstep::launcher
