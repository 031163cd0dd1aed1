#include "launcher/supervisor.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "launcher/processes.h"

namespace lockstep::launcher {
namespace {

using std::chrono::milliseconds;

/// A worker that leaves because its peer died can be seen before that peer, which first tells all others why
/// (time_to_tell of comm/tcp/mesh.cpp): how long to look for the first cause.
constexpr milliseconds secondary_failure_window{300};
/// After a rank has reported a lost peer, the others get this long for their reports.
constexpr milliseconds lost_peer_grace{1000};
/// For processes that successful workers left behind, such as the `tee` of a shell's output.
constexpr Seconds straggler_grace{1.0};
/// A rank that is stopped for so long while nothing else of the run goes on is named.
constexpr std::chrono::seconds stopped_grace{5};

int poll_timeout(Clock::time_point limit) {
  if (limit == Clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<milliseconds>(limit - Clock::now()).count();
  return static_cast<int>(std::clamp<decltype(left)>(left, 0, 3'600'000));
}

ExitStatus exit_status_of(const siginfo_t& info, int rank) {
  const bool left = info.si_code == CLD_EXITED;
  return {.rank = rank,
          .code = left ? info.si_status : 0,
          .signal = left ? 0 : info.si_status,
          .when = Clock::now()};
}

}  // namespace

Supervisor::Supervisor(std::vector<Worker>& workers, std::set<pid_t> foreign, const Reaper& reaper,
                       Signals& signals, Output& output, Seconds shutdown_timeout)
    : workers_(workers),
      tree_(workers, std::move(foreign)),
      reaper_(reaper),
      signals_(signals),
      output_(output),
      shutdown_timeout_(clock_duration(shutdown_timeout)),
      killed_(workers.size()) {}

std::vector<ExitStatus> Supervisor::run() {
  while (any_running()) {
    if (Clock::now() >= stop_at_) stop_because_of_failure();
    if (Clock::now() >= kill_at_) kill_all();
    step(std::min({stop_at_, kill_at_, name_stopped_workers()}));
  }
  const bool all_good = std::ranges::all_of(statuses_, &ExitStatus::good);
  sweep(all_good ? straggler_grace : Seconds(0));
  output_.drain();
  return statuses_;
}

bool Supervisor::any_running() const {
  return !ended_wrappers_.empty() || std::ranges::any_of(workers_, &Worker::running);
}

void Supervisor::step(Clock::time_point limit) {
  std::vector<pollfd> polls = {{.fd = signals_.fd(), .events = POLLIN, .revents = 0},
                               {.fd = signals_.job().fd(), .events = POLLIN, .revents = 0}};
  output_.add_polls(polls);
  poll(polls.data(), polls.size(), poll_timeout(limit));
  if (polls[1].revents != 0) suspend();
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
  tree_.update();
  for (const Worker& worker : workers_) {
    tree_.send(worker, signal);
    tree_.continue_stopped(worker);
  }
  told_to_stop_ = told_to_stop_ || asks_to_stop(signal);
  if (!asks_to_end(signal)) return;
  const bool insists = signal == SIGINT && interrupts_.is_second(Clock::now());
  kill_at_ = insists ? Clock::now() : std::min(kill_at_, Clock::now() + shutdown_timeout_);
  passed_on_ = signal;
  ++signals_passed_on_;
  stopping_ = true;
  output_.drop_what_nobody_reads();
}

void Supervisor::suspend() {
  tree_.update();
  for (const Worker& worker : workers_) tree_.send(worker, SIGTSTP);
  signals_.job().suspend();
  for (const Worker& worker : workers_) tree_.send(worker, SIGCONT);
}

void Supervisor::reap() {
  std::vector<ExitStatus> round;
  siginfo_t info = {};
  // Looked at first: the process group of one that was reaped is not known any more.
  while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
    const auto rank = tree_.rank_of(info.si_pid);
    waitid(P_PID, static_cast<id_t>(info.si_pid), &info, WEXITED | WNOHANG);
    if (rank && worker_of(*rank).pid() == info.si_pid) {
      worker_of(*rank).set_ended();
      round.push_back(exit_status_of(info, *rank));
    } else if (rank && (stopping_ || told_to_stop_)) {
      note_end_of_orphan(exit_status_of(info, *rank));
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

Clock::time_point Supervisor::name_stopped_workers() {
  const bool others_go_on = std::ranges::any_of(
      workers_, [&](const Worker& worker) { return worker.running() && !stopped_.contains(worker.rank()); });
  auto next = Clock::time_point::max();
  if (others_go_on) return next;  // they miss it, and report it
  for (auto& [rank, stop] : stopped_) {
    if (stop.name_at <= Clock::now()) {
      stop.name_at = Clock::time_point::max();
      output_.show_line(
          fmt::format("launch: rank {} is stopped by SIG{}, and no other rank of this node goes on: kill "
                      "-CONT {} continues it\n",
                      output_.first_rank() + rank, sigabbrev_np(stop.signal), worker_of(rank).pid()));
    }
    next = std::min(next, stop.name_at);
  }
  return next;
}

void Supervisor::note_end_of_worker(const ExitStatus& status) {
  stopped_.erase(status.rank);
  // A batch system's warning ends a wrapper script at once, and lets what it has started save.
  const bool of_warning = told_to_stop_ && asks_to_stop(status.signal);
  if (of_warning) kill_at_ = std::min(kill_at_, status.when + shutdown_timeout_);
  if ((stopping_ || of_warning) && status.failed()) {
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
  if (ended_wrappers_.empty()) return;
  tree_.update();
  for (const auto& [rank, status] : std::exchange(ended_wrappers_, {})) {
    const auto orphan = orphans_.find(rank);
    if (tree_.is_alive(rank)) {
      ended_wrappers_.emplace(rank, status);
    } else {
      judge(orphan == orphans_.end() ? status : more_telling(status, orphan->second));
    }
  }
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
  tree_.update();
  for (const Worker& worker : workers_) {
    if (!worker.running()) continue;
    // A stopped worker (a debugger's, or by SIGSTOP) cannot act on SIGTERM in time.
    if (worker.is_stopped()) {
      killed_[static_cast<std::size_t>(worker.rank())] = true;
      tree_.send(worker, SIGKILL);
    } else {
      tree_.send(worker, SIGTERM);
      tree_.continue_stopped(worker);
    }
  }
  kill_at_ = std::min(kill_at_, Clock::now() + shutdown_timeout_);
}

void Supervisor::kill_all() {
  kill_at_ = Clock::time_point::max();
  tree_.update();
  for (const Worker& worker : workers_) {
    if (!worker.running() && !ended_wrappers_.contains(worker.rank())) continue;
    killed_[static_cast<std::size_t>(worker.rank())] = true;
    tree_.send(worker, SIGKILL);
  }
}

void Supervisor::sweep(Seconds grace) {
  const auto left_behind = [&] { return tree_.update(), !tree_.all().empty(); };
  for (const Deadline deadline = Deadline::in(grace); left_behind() && !deadline.passed();)
    step(deadline.when());
  if (grace > Seconds(0)) name_left_behind();
  for (const Deadline deadline = Deadline::in(straggler_grace); left_behind() && !deadline.passed();) {
    for (const Worker& worker : workers_) tree_.send(worker, SIGKILL);
    for (const auto& [pid, rank] : tree_.all()) kill(pid, SIGKILL);
    step(deadline.when());
  }
}

void Supervisor::name_left_behind() {
  for (const auto& [pid, rank] : tree_.all()) {
    output_.show_line(fmt::format(
        "launch: rank {} left {} (pid {}) behind, which is killed: a rank ends with the program that launch "
        "started\n",
        rank ? std::to_string(output_.first_rank() + *rank) : "?", program_name(pid), pid));
  }
}

void Supervisor::finish_output(std::string_view last_lines) {
  output_.show_line(last_lines);
  const Deadline deadline = Deadline::at(Clock::now() + shutdown_timeout_);
  const int before = signals_passed_on_;
  while (!output_.flushed() && !deadline.passed() && signals_passed_on_ == before) step(deadline.when());
}

}  // namespace lockstep::launcher
