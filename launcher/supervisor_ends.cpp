#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "launcher/processes.h"
#include "launcher/supervisor.h"

namespace lockstep::launcher {
namespace {

using std::chrono::milliseconds;

/// A worker that leaves because its peer died can be seen before that peer, which first tells all others why
/// (time_to_tell of comm/tcp/mesh.cpp): how long to look for the first cause.
constexpr milliseconds secondary_failure_window{300};
/// After a rank has reported a lost peer, the others get this long for their reports.
constexpr milliseconds lost_peer_grace{1000};
/// A rank that is stopped for so long while nothing else of the run goes on is named.
constexpr std::chrono::seconds stopped_grace{5};

ExitStatus exit_status_of(const siginfo_t& info, int rank) {
  const bool left = info.si_code == CLD_EXITED;
  return {.rank = rank,
          .code = left ? info.si_status : 0,
          .signal = left ? 0 : info.si_status,
          .when = Clock::now()};
}

}  // namespace

void Supervisor::reap() {
  std::vector<ExitStatus> round;
  siginfo_t info = {};
  // Looked at first: the process group of one that was reaped is not known any more.
  while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
    const auto rank = tree_.rank_of(info.si_pid);
    const bool stands_for = rank && stands_for_rank(*rank, info.si_pid);
    waitid(P_PID, static_cast<id_t>(info.si_pid), &info, WEXITED | WNOHANG);
    if (rank && worker_of(*rank).pid() == info.si_pid) {
      worker_of(*rank).set_ended();
      round.push_back(exit_status_of(info, *rank));
    } else if (rank && (stopping_ || told_to_stop() || stands_for)) {
      const ExitStatus status = exit_status_of(info, *rank);
      // A helper, such as `tee`, that the signal ended says nothing about a script that ends well by its
      // trap.
      const bool is_helper = told_to_stop() && !stands_for && status.tells_only_of_stop();
      if (!is_helper) note_end_of_orphan(status);
    }
    if (rank) forget_if_gone(worker_of(*rank));
    info = {};
  }
  // Among statuses found together a death by signal is the likelier cause.
  std::ranges::stable_partition(round, [](const ExitStatus& status) { return status.signal != 0; });
  for (const ExitStatus& status : round) note_end_of_worker(status);
  judge_ended_wrappers();
  note_stopped_workers();
}

void Supervisor::forget_if_gone(const Worker& worker) const {
  if (!worker.running() && !has_children_in(worker.pid())) reaper_.forget(worker.pid());
}

void Supervisor::note_stopped_workers() {
  siginfo_t info = {};
  while (waitid(P_ALL, 0, &info, WSTOPPED | WCONTINUED | WNOHANG) == 0 && info.si_pid != 0) {
    const auto rank = tree_.rank_of(info.si_pid);
    if (rank && worker_of(*rank).pid() == info.si_pid) {
      stopped_.erase(*rank);
      if (info.si_code == CLD_STOPPED)
        stopped_[*rank] = {.signal = info.si_status, .name_at = Clock::now() + stopped_grace};
    }
    info = {};
  }
}

void Supervisor::note_end_of_worker(const ExitStatus& status) {
  stopped_.erase(status.rank);
  // A signal, or its trap for that, ends a wrapper script at once, and lets what it has started save: in a
  // time that a batch system's warning has not set yet.
  const bool of_stop = told_to_stop() && status.tells_only_of_stop();
  if (of_stop && status.failed()) kill_at_ = std::min(kill_at_, status.when + shutdown_timeout_);
  const Clock::duration lasted = status.when - worker_of(status.rank).started();
  const bool only_started = status.good() && !stopping_ && !told_to_stop() && lasted < straggler_grace;
  if (only_started || of_stop || (stopping_ && status.failed())) {
    ended_wrappers_.emplace(status.rank, status);
  } else {
    judge(status);
  }
}

void Supervisor::note_end_of_orphan(const ExitStatus& status) {
  const auto [at, is_first] = orphans_.emplace(status.rank, status);
  if (!is_first) at->second = more_telling(at->second, status);
}

void Supervisor::judge_ended_wrappers() {
  look_at_ = Clock::time_point::max();
  if (ended_wrappers_.empty()) return;
  tree_.update();
  for (const auto& [rank, status] : std::exchange(ended_wrappers_, {})) {
    const auto orphan = orphans_.find(rank);
    if (tree_.is_alive(rank) && is_waited_for(status)) {
      ended_wrappers_.emplace(rank, status);
    } else {
      if (const auto successor = successors_.extract(rank)) reaper_.forget(successor.mapped());
      judge(orphan == orphans_.end() ? status : more_telling(status, orphan->second));
    }
  }
}

/// Of an ended worker with processes. One that ended well and at once may have started the rank, as setsid
/// does, and not only have left something behind: that shows when it is in a session, or group, of its own.
bool Supervisor::is_waited_for(const ExitStatus& status) {
  // SIGKILL may not reach a process of another user (sudo), nor end one that waits for a disk.
  if (Clock::now() >= give_up_at_) return false;
  look_at_ = std::min(look_at_, give_up_at_);
  if (status.failed()) return true;
  if (!stopped_by_failure_ && !told_to_stop()) follow_successor(worker_of(status.rank));
  const auto successor = successors_.find(status.rank);
  if (successor != successors_.end()) return stopping_ || tree_.all().contains(successor->second);
  if (stop_signal_ && status.when < stop_signal_->when + shutdown_timeout_) {
    if (!may_be_saving(status.rank)) return false;
    if (std::ranges::none_of(workers_, &Worker::running))
      kill_at_ = std::min(kill_at_, status.when + shutdown_timeout_);
    return true;
  }
  const Clock::time_point limit = status.when + clock_duration(straggler_grace);
  if (stopped_by_failure_ || Clock::now() >= limit) return false;
  look_at_ = std::min(look_at_, limit);
  return true;
}

/// Not what a script has left that never learned of the signal, as a shell's background jobs do of SIGINT.
bool Supervisor::may_be_saving(int rank) const {
  return std::ranges::any_of(tree_.all(), [&](const auto& process) {
    return process.second == rank && !ignores(process.first, stop_signal_->number);
  });
}

void Supervisor::follow_successor(const Worker& worker) {
  if (successors_.contains(worker.rank())) return;
  const auto successor = tree_.leader_beside(worker);
  if (!successor) return;
  successors_.emplace(worker.rank(), *successor);
  reaper_.watch(*successor);
  output_.show_line(
      fmt::format("launch: rank {} goes on as {} (pid {}), which the program that launch started has left in "
                  "its place\n",
                  output_.first_rank() + worker.rank(), program_name(*successor), *successor));
}

/// Asked of a process that is not reaped yet. Its worker may have been a moment ago, and not be judged yet.
bool Supervisor::stands_for_rank(int rank, pid_t pid) const {
  const auto successor = successors_.find(rank);
  if (successor != successors_.end()) return successor->second == pid;
  return !worker_of(rank).running() && getpgid(pid) == pid;
}

void Supervisor::judge(ExitStatus status) {
  if (told_to_stop()) status = more_telling(status, told_code_(status.rank));
  status.after_failure = stopped_by_failure_;
  status.killed_by_us = killed_[static_cast<std::size_t>(status.rank)] && status.signal == SIGKILL;
  statuses_.push_back(status);

  if (status.lost_peer()) kill_at_ = std::min(kill_at_, status.when + lost_peer_grace);
  if (status.stopped()) kill_at_ = std::min(kill_at_, status.when + shutdown_timeout_);
  if (status.failed() && !stopping_) {
    stop_at_ = std::min(stop_at_, status.lost_peer() ? status.when + secondary_failure_window : status.when);
  }
}

}  // namespace lockstep::launcher
