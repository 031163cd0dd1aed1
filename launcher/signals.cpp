#include "launcher/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "kernels/base/error.h"

namespace lockstep::launcher {

Signals::Signals(const std::vector<int>& passed_on) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  for (int signal : passed_on) sigaddset(&set, signal);
  // A parent that ignores SIGCHLD hands that down, and then there would be no statuses to see.
  signal(SIGCHLD, SIG_DFL);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  fd_ = UniqueFd(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!fd_) throw DeviceError(fmt::format("no signalfd: {}", errno_message(errno)));
}

std::vector<int> Signals::read() {
  std::vector<int> arrived;
  signalfd_siginfo info;
  while (::read(fd_.get(), &info, sizeof info) == sizeof info)
    arrived.push_back(static_cast<int>(info.ssi_signo));
  std::ranges::stable_partition(arrived, [](int signal) { return signal != SIGCHLD; });
  return arrived;
}

}  // namespace lockstep::launcher
