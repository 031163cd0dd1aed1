#include "launcher/exit_status.h"

#include <string.h>
#include <sys/resource.h>

#include <csignal>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "launcher/signals.h"

namespace lockstep::launcher {
namespace {

/// Lower is nearer to the first cause.
int distance_from_cause(const ExitStatus& status) {
  if (status.has_own_cause()) return status.after_failure || status.killed_by_us ? 1 : 0;
  if (status.killed_by_us) return 5;
  if (status.after_failure) return 4;
  if (status.stopped()) return 3;
  return status.lost_peer() ? 2 : 0;
}

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return Seconds(to - from).count();
}

const RankFacts& facts_of(const ExitStatus& status, const std::vector<RankFacts>& ranks) {
  return ranks[static_cast<std::size_t>(status.rank)];
}

std::string why_killed(const ExitStatus& status) {
  if (status.killed_by_us) return " by launch, as it did not end in time (--shutdown-timeout)";
  if (status.signal != SIGKILL) return {};
  rlimit time{};  // which ranks have from launch
  if (getrlimit(RLIMIT_CPU, &time) == 0 && time.rlim_max != RLIM_INFINITY) {
    return fmt::format(
        "; the kernel does that after {} s (ulimit -t) of processor time, and when memory runs out: see "
        "dmesg",
        time.rlim_max);
  }
  return "; the kernel does that when memory runs out: see dmesg; or somebody's kill -9 did";
}

std::string cause_lines(const ExitStatus& cause, const RankFacts& facts, const std::string& host) {
  std::string lines = fmt::format(
      "launch: rank {} (pid {}) {} after {:.1f} s{} [local rank {}, host {}]\n", facts.rank, facts.pid,
      describe(cause), seconds_between(facts.started, cause.when), why_killed(cause), cause.rank, host);
  if (!facts.message.empty()) lines += fmt::format("launch:   it said: {}\n", facts.message);
  return lines;
}

/// Grouped, as a hundred ranks usually end alike.
std::string others_line(const ExitStatus& cause, const std::vector<ExitStatus>& statuses,
                        const std::vector<RankFacts>& facts) {
  struct Group {
    ExitStatus status;
    std::vector<int> ranks;
  };
  std::map<std::pair<int, int>, Group> groups;
  for (const ExitStatus& status : statuses) {
    if (status.rank == cause.rank) continue;
    Group& group = groups[{status.code, status.signal}];
    group.status = status;
    group.ranks.push_back(facts_of(status, facts).rank);
  }
  std::string line;
  for (const auto& [key, group] : groups) {
    line += fmt::format("{}{} {} {}", line.empty() ? "" : "; ", group.ranks.size() == 1 ? "rank" : "ranks",
                        fmt::join(group.ranks, ", "), describe(group.status, group.ranks.size()));
  }
  return line.empty() ? line : fmt::format("launch:   then {}\n", line);
}

}  // namespace

bool ExitStatus::tells_only_of_stop() const {
  return good() || asks_to_stop(signal != 0 ? signal : code - 128);
}

ExitStatus more_telling(const ExitStatus& wrapper, const ExitStatus& later) {
  const auto telling = [](const ExitStatus& status) {
    if (status.stopped()) return 3;
    if (status.good()) return 0;
    return status.tells_only_of_stop() ? 1 : 2;
  };
  return telling(later) > telling(wrapper) ? later : wrapper;
}

ExitStatus more_telling(const ExitStatus& wrapper, int told_code) {
  ExitStatus told = wrapper;
  told.code = told_code;
  told.signal = 0;
  return wrapper.tells_only_of_stop() && told.stopped() ? told : wrapper;
}

std::optional<ExitStatus> root_cause(const std::vector<ExitStatus>& statuses) {
  const ExitStatus* cause = nullptr;
  for (const ExitStatus& status : statuses) {
    if (status.good()) continue;
    if (!cause || distance_from_cause(status) < distance_from_cause(*cause)) cause = &status;
  }
  return cause ? std::optional(*cause) : std::nullopt;
}

std::string describe(const ExitStatus& status, std::size_t ranks) {
  if (status.signal == 0) return fmt::format("left with exit code {}", status.code);
  const char* verb = ranks == 1 ? "was" : "were";
  const char* name = sigabbrev_np(status.signal);
  return name ? fmt::format("{} killed by SIG{}", verb, name)
              : fmt::format("{} killed by signal {}", verb, status.signal);
}

std::string failure_report(const ExitStatus& cause, const std::vector<ExitStatus>& statuses,
                           const std::vector<RankFacts>& ranks, const std::string& host,
                           std::optional<int> passed_on) {
  if (cause.stopped()) {  // what was saved the program says
    const std::string by = passed_on ? fmt::format(" by SIG{}", sigabbrev_np(*passed_on)) : std::string();
    return fmt::format("launch: stopped{} (exit code 75)\n", by);
  }
  std::string report = cause_lines(cause, facts_of(cause, ranks), host);
  if (passed_on) report += fmt::format("launch:   after SIG{} was passed on\n", sigabbrev_np(*passed_on));
  return report + others_line(cause, statuses, ranks);
}

}  // namespace lockstep::launcher
