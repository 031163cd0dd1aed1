#include "launcher/reaper.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <set>

#include <fmt/format.h>

#include "kernels/base/error.h"

namespace lockstep::launcher {
namespace {

constexpr pid_t dismissed = 0;

/// Reads group numbers to watch, and negative ones to forget, until launch dismisses the reaper or is gone;
/// then kills what is left.
void watch_groups(int orders) {
  std::set<pid_t> groups;
  for (pid_t message = 0; read(orders, &message, sizeof message) == sizeof message;) {
    if (message == dismissed) return;
    if (message > 0) groups.insert(message);
    if (message < 0) groups.erase(-message);
  }
  for (const pid_t group : groups) kill(-group, SIGKILL);
}

[[noreturn]] void run_reaper(int orders) {
  setsid();
  prctl(PR_SET_NAME, "launch-reaper");
  dup2(orders, 0);
  closefrom(1);
  watch_groups(0);
  _exit(0);
}

}  // namespace

Reaper::Reaper() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw DeviceError(fmt::format("no pipe: {}", errno_message(errno)));
  const UniqueFd read_end(ends[0]);
  orders_ = UniqueFd(ends[1]);
  const pid_t middle = fork();
  if (middle < 0) throw DeviceError(fmt::format("no process for the reaper: {}", errno_message(errno)));
  if (middle == 0) {
    // The first child leaves at once, so that the reaper is not among launch's children, which are its
    // workers.
    if (fork() == 0) run_reaper(read_end.get());
    _exit(0);
  }
  waitpid(middle, nullptr, 0);
}

Reaper::~Reaper() {
  tell(dismissed);
}

void Reaper::tell(pid_t message) const {
  // A reaper that is gone is no reason to stop: it is the second line of defence.
  [[maybe_unused]] const ssize_t written = write(orders_.get(), &message, sizeof message);
}

}  // namespace lockstep::launcher
