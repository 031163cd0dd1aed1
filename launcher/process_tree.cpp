#include "launcher/process_tree.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <set>

#include <fmt/format.h>

#include "kernels/base/descriptors.h"
#include "kernels/base/error.h"
#include "kernels/base/number.h"
#include "kernels/base/threads.h"
#include "launcher/processes.h"

namespace lockstep::launcher {
namespace {

bool has_children_of_kind(idtype_t kind, pid_t id) {
  siginfo_t info;
  return waitid(kind, static_cast<id_t>(id), &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

/// Reads group numbers to watch, and negative ones to forget, until launch is gone; then kills what is left.
void watch_groups(int orders) {
  std::set<pid_t> groups;
  for (pid_t message = 0; read(orders, &message, sizeof message) == sizeof message;) {
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

bool has_children_in(pid_t group) {
  return has_children_of_kind(P_PGID, group);
}

ProcessTree::ProcessTree(const std::vector<Worker>& workers, std::set<pid_t> foreign)
    : workers_(workers), foreign_(std::move(foreign)) {}

std::set<pid_t> ProcessTree::own_descendants() {
  std::set<pid_t> pids;
  if (!has_children_of_kind(P_ALL, 0)) return pids;
  for (const Process& process : descendants_of(getpid())) pids.insert(process.pid);
  return pids;
}

std::optional<int> ProcessTree::rank_led_by(pid_t group) const {
  const auto leader = std::ranges::find(workers_, group, &Worker::pid);
  return leader == workers_.end() ? std::nullopt : std::optional(leader->rank());
}

std::optional<int> ProcessTree::rank_inherited_by(pid_t pid) const {
  if (workers_.size() == 1) return workers_.front().rank();
  const auto rank = parse_number<int>(variable_of(pid, "LOCAL_RANK"));
  return rank && *rank >= 0 && *rank < std::ssize(workers_) ? rank : std::nullopt;
}

void ProcessTree::update() {
  std::map<pid_t, std::optional<int>> now;
  if (has_children_beside(foreign_)) {
    for (const Process& process : descendants_of(getpid(), foreign_)) {
      std::optional<int> rank = rank_led_by(process.group);
      for (const auto& [known, key] : {std::pair{&ranks_, process.pid}, {&now, process.parent}}) {
        const auto found = known->find(key);
        if (!rank && found != known->end()) rank = found->second;
      }
      now.emplace(process.pid, rank ? rank : rank_inherited_by(process.pid));
    }
  }
  ranks_ = std::move(now);
}

void ProcessTree::send(const Worker& worker, int signal) const {
  if (worker.running() || has_children_in(worker.pid())) kill(-worker.pid(), signal);
  for (const auto& [pid, rank] : ranks_) {
    if (rank == worker.rank() && getpgid(pid) != worker.pid()) kill(pid, signal);
  }
}

void ProcessTree::continue_stopped(const Worker& worker) const {
  for (const auto& [pid, rank] : ranks_) {
    const auto process = rank == worker.rank() ? read_process(pid) : std::nullopt;
    if (process && process->is_stopped()) kill(pid, SIGCONT);
  }
}

std::optional<int> ProcessTree::rank_of(pid_t pid) const {
  if (const auto rank = rank_led_by(pid)) return rank;
  if (const auto rank = rank_led_by(getpgid(pid))) return rank;
  if (const auto found = ranks_.find(pid); found != ranks_.end()) return found->second;
  return foreign_.contains(pid) ? std::nullopt : rank_inherited_by(pid);
}

bool ProcessTree::is_alive(int rank) const {
  if (has_children_in(workers_[static_cast<std::size_t>(rank)].pid())) return true;
  return std::ranges::any_of(ranks_, [&](const auto& entry) { return entry.second == rank; });
}

std::optional<pid_t> ProcessTree::leader_beside(const Worker& worker) const {
  const auto leader = std::ranges::find_if(ranks_, [&](const auto& entry) {
    const auto& [pid, rank] = entry;
    return rank == worker.rank() && pid != worker.pid() && getpgid(pid) == pid;
  });
  return leader == ranks_.end() ? std::nullopt : std::optional(leader->first);
}

Reaper::Reaper() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw DeviceError(fmt::format("no pipe: {}", obstacle_to_open(errno)));
  const UniqueFd read_end(ends[0]);
  orders_ = UniqueFd(ends[1]);
  pid_ = fork();
  if (pid_ < 0)
    throw DeviceError(fmt::format("no process for the reaper: {}", obstacle_to_start_process(errno)));
  if (pid_ == 0) run_reaper(read_end.get());
}

Reaper::~Reaper() {
  // Somebody may have killed it: then launch has reaped it, and its number may be another's.
  if (!has_children_of_kind(P_PID, pid_)) return;
  // A word would not reach one that is stopped.
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Reaper::tell(pid_t message) const {
  // A reaper that is gone is no reason to stop: it is the second line of defence.
  [[maybe_unused]] const ssize_t written = write(orders_.get(), &message, sizeof message);
}

}  // namespace lockstep::launcher
