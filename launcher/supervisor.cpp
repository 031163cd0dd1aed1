#include "launcher/supervisor.h"

#include <poll.h>
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

int poll_timeout(Clock::time_point limit) {
  if (limit == Clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<milliseconds>(limit - Clock::now()).count();
  return static_cast<int>(std::clamp<decltype(left)>(left, 0, 3'600'000));
}

}  // namespace

Supervisor::Supervisor(std::vector<Worker>& workers, std::set<pid_t> foreign, const Reaper& reaper,
                       Signals& signals, Output& output, Seconds shutdown_timeout,
                       std::function<int(int rank)> told_code)
    : workers_(workers),
      tree_(workers, std::move(foreign)),
      reaper_(reaper),
      signals_(signals),
      output_(output),
      shutdown_timeout_(clock_duration(shutdown_timeout)),
      told_code_(std::move(told_code)),
      killed_(workers.size()) {}

std::vector<ExitStatus> Supervisor::run() {
  while (any_running()) {
    if (Clock::now() >= stop_at_) stop_because_of_failure();
    if (Clock::now() >= kill_at_) kill_all();
    if (Clock::now() >= look_at_) {
      judge_ended_wrappers();  // which may leave none that runs, and so no event to wait for
      continue;
    }
    step(std::min({stop_at_, kill_at_, look_at_, name_stopped_workers()}));
  }
  const bool all_good = std::ranges::all_of(statuses_, &ExitStatus::good);
  sweep(all_good ? straggler_grace : Seconds(0));
  output_.drain();
  return statuses_;
}

bool Supervisor::any_running() const {
  return !ended_wrappers_.empty() || std::ranges::any_of(workers_, &Worker::running);
}

bool Supervisor::is_there(const Worker& worker) const {
  return worker.running() || ended_wrappers_.contains(worker.rank());
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
  if (asks_to_stop(signal)) stop_signal_ = {.number = signal, .when = Clock::now()};
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

Clock::time_point Supervisor::name_stopped_workers() {
  const bool others_go_on = std::ranges::any_of(
      workers_, [&](const Worker& worker) { return is_there(worker) && !stopped_.contains(worker.rank()); });
  auto next = Clock::time_point::max();
  // Others that are there miss it, and report it; where the ranks are about to be stopped, it is killed.
  if (others_go_on || stopping_ || stop_at_ != Clock::time_point::max()) return next;
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

void Supervisor::stop_because_of_failure() {
  stop_at_ = Clock::time_point::max();
  if (stopping_) return;
  stopping_ = true;
  stopped_by_failure_ = true;
  tree_.update();
  for (const Worker& worker : workers_) {
    if (!worker.running() && !successors_.contains(worker.rank())) continue;
    // A stopped worker (a debugger's, or by SIGSTOP) cannot act on SIGTERM in time.
    if (worker.is_stopped()) {
      output_.show_line(
          fmt::format("launch: rank {} (pid {}) is stopped, so it cannot end by itself: launch kills it\n",
                      output_.first_rank() + worker.rank(), worker.pid()));
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
  give_up_at_ = std::min(give_up_at_, Clock::now() + clock_duration(straggler_grace));
  look_at_ = std::min(look_at_, give_up_at_);
  tree_.update();
  for (const Worker& worker : workers_) {
    if (!is_there(worker)) continue;
    killed_[static_cast<std::size_t>(worker.rank())] = true;
    tree_.send(worker, SIGKILL);
  }
}

void Supervisor::sweep(Seconds grace) {
  const auto left_behind = [&] { return tree_.update(), !tree_.all().empty(); };
  for (const Deadline deadline = Deadline::in(grace); left_behind() && !deadline.passed();)
    step(deadline.when());
  if (grace > Seconds(0)) {
    name_left_behind(
        "which is killed: a rank ends with the program that launch started, so let that wait for it "
        "(setsid -w)");
  }
  for (const Deadline deadline = Deadline::in(straggler_grace); left_behind() && !deadline.passed();) {
    for (const Worker& worker : workers_) tree_.send(worker, SIGKILL);
    for (const auto& [pid, rank] : tree_.all()) kill(pid, SIGKILL);
    step(deadline.when());
  }
  name_left_behind("which launch cannot kill: it is another user's, or waits for a disk");
}

void Supervisor::name_left_behind(std::string_view fate) {
  for (const auto& [pid, rank] : tree_.all()) {
    output_.show_line(fmt::format("launch: rank {} left {} (pid {}) behind, {}\n",
                                  rank ? std::to_string(output_.first_rank() + *rank) : "?",
                                  program_name(pid), pid, fate));
  }
}

void Supervisor::finish_output(std::string_view last_lines) {
  output_.show_line(last_lines);
  const Deadline deadline = Deadline::at(Clock::now() + shutdown_timeout_);
  const int before = signals_passed_on_;
  while (!output_.flushed() && !deadline.passed() && signals_passed_on_ == before) step(deadline.when());
}

}  // namespace lockstep::launcher
