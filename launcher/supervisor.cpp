#include "launcher/supervisor.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>

#include <fmt/format.h>

#include "kernels/base/error.h"

namespace lockstep::launcher {
namespace {

using std::chrono::milliseconds;

/// A worker that leaves because its peer died can be seen before that peer: how long to look for the first
/// cause.
constexpr milliseconds secondary_failure_window{100};
/// After a rank has reported a lost peer, the others get this long for their reports.
constexpr milliseconds lost_peer_grace{1000};
/// For processes that successful workers left behind, such as the `tee` of a shell's output.
constexpr Seconds straggler_grace{1.0};

bool asks_to_end(int signal) {
  return signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT;
}

int poll_timeout(Clock::time_point limit) {
  if (limit == Clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<milliseconds>(limit - Clock::now()).count();
  return static_cast<int>(std::clamp<decltype(left)>(left, 0, 3'600'000));
}

/// Children of ours, adopted orphans included, in process group `group`.
bool has_members(pid_t group) {
  siginfo_t info;
  return waitid(P_PGID, static_cast<id_t>(group), &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

ExitStatus exit_status_of(const siginfo_t& info, int rank) {
  const bool left = info.si_code == CLD_EXITED;
  return {.rank = rank,
          .code = left ? info.si_status : 0,
          .signal = left ? 0 : info.si_status,
          .when = Clock::now()};
}

}  // namespace

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

Supervisor::Supervisor(std::vector<Worker>& workers, const Reaper& reaper, Signals& signals, Output& output,
                       Seconds shutdown_timeout)
    : workers_(workers),
      reaper_(reaper),
      signals_(signals),
      output_(output),
      shutdown_timeout_(clock_duration(shutdown_timeout)),
      killed_(workers.size()) {}

std::vector<ExitStatus> Supervisor::run() {
  while (any_running()) {
    if (Clock::now() >= stop_at_) stop_because_of_failure();
    if (Clock::now() >= kill_at_) kill_all();
    step(std::min(stop_at_, kill_at_));
  }
  const bool all_good = std::ranges::all_of(statuses_, &ExitStatus::good);
  sweep_groups(all_good ? straggler_grace : Seconds(0));
  finish_output();
  return statuses_;
}

bool Supervisor::any_running() const {
  return std::ranges::any_of(workers_, &Worker::running);
}

void Supervisor::step(Clock::time_point limit) {
  std::vector<pollfd> polls = {{.fd = signals_.fd(), .events = POLLIN, .revents = 0}};
  output_.add_polls(polls);
  poll(polls.data(), polls.size(), poll_timeout(limit));
  output_.serve();
  for (int signal : signals_.read()) {
    if (signal == SIGCHLD) {
      reap();
    } else {
      pass_on(signal);
    }
  }
}

void Supervisor::pass_on(int signal) {
  for (const Worker& worker : workers_) {
    worker.send(signal);
    if (worker.is_stopped()) worker.send(SIGCONT);
  }
  if (!asks_to_end(signal)) return;
  // A second ^C asks to end at once.
  const bool insisted = signal == SIGINT && passed_on_ == SIGINT;
  kill_at_ = insisted ? Clock::now() : std::min(kill_at_, Clock::now() + shutdown_timeout_);
  passed_on_ = signal;
  stopping_ = true;
}

void Supervisor::reap() {
  std::vector<ExitStatus> round;
  siginfo_t info = {};
  while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == 0 && info.si_pid != 0) {
    const auto worker = std::ranges::find_if(workers_, [&](const Worker& candidate) {
      return candidate.running() && candidate.pid() == info.si_pid;
    });
    if (worker != workers_.end()) {
      worker->set_ended();
      if (!has_members(worker->pid())) reaper_.forget(worker->pid());
      round.push_back(exit_status_of(info, worker->rank()));
    }
    info = {};
  }
  // Among statuses found together a death by signal is the likelier cause.
  std::ranges::stable_partition(round, [](const ExitStatus& status) { return status.signal != 0; });
  for (const ExitStatus& status : round) judge(status);
}

void Supervisor::judge(ExitStatus status) {
  status.after_failure = stopped_by_failure_;
  status.killed_by_us = killed_[static_cast<std::size_t>(status.rank)] && status.signal == SIGKILL;
  statuses_.push_back(status);

  if (status.lost_peer()) kill_at_ = std::min(kill_at_, status.when + lost_peer_grace);
  if (status.stopped()) kill_at_ = std::min(kill_at_, status.when + shutdown_timeout_);
  if (status.failed() && !stopping_) {
    stop_at_ = std::min(stop_at_, status.lost_peer() ? status.when + secondary_failure_window : status.when);
  }
}

void Supervisor::stop_because_of_failure() {
  stop_at_ = Clock::time_point::max();
  if (stopping_) return;
  stopping_ = true;
  stopped_by_failure_ = true;
  for (const Worker& worker : workers_) {
    // A stopped worker (a debugger's, or by SIGSTOP) cannot act on SIGTERM in time.
    if (worker.is_stopped()) {
      killed_[static_cast<std::size_t>(worker.rank())] = true;
      worker.send(SIGKILL);
    } else {
      worker.send(SIGTERM);
      worker.send(SIGCONT);
    }
  }
  kill_at_ = std::min(kill_at_, Clock::now() + shutdown_timeout_);
}

void Supervisor::kill_all() {
  kill_at_ = Clock::time_point::max();
  for (const Worker& worker : workers_) {
    if (!worker.running()) continue;
    killed_[static_cast<std::size_t>(worker.rank())] = true;
    worker.send(SIGKILL);
  }
}

void Supervisor::sweep_groups(Seconds grace) {
  const auto left_behind = [&] {
    return std::ranges::any_of(workers_, [](const Worker& worker) { return has_members(worker.pid()); });
  };
  for (const Deadline deadline = Deadline::in(grace); left_behind() && !deadline.passed();)
    step(deadline.when());
  for (const Worker& worker : workers_) {
    if (has_members(worker.pid())) kill(-worker.pid(), SIGKILL);
  }
  for (const Deadline deadline = Deadline::in(straggler_grace); left_behind() && !deadline.passed();) {
    step(deadline.when());
  }
}

void Supervisor::finish_output() {
  output_.drain();
  const auto before = passed_on_;
  passed_on_.reset();
  while (!output_.flushed() && !passed_on_) step(Clock::time_point::max());
  if (!passed_on_) passed_on_ = before;
}

}  // namespace lockstep::launcher
