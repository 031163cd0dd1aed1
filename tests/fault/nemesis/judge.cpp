#include "tests/fault/nemesis/judge.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <csignal>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kernels/base/unique_fd.h"
#include "tests/support/files.h"
#include "tests/support/text.h"

namespace lockstep::nemesis {
namespace {

namespace fs = std::filesystem;
using tests::count_of;
using Faults = std::vector<std::string>;

constexpr int killed = 128 + SIGKILL;
constexpr int lost_peer = 5;
constexpr int stopped = 75;
/// As for all launches to end (job.cpp).
constexpr Seconds most_to_end{10};
/// Then a rank leaves, whatever it is writing (WatchHooks::grace), as on a machine that gives it no core.
constexpr Seconds most_to_report{1.4};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

nlohmann::json json_in(const fs::path& file) {
  return nlohmann::json::parse(tests::contents(file), nullptr, false);
}

/// Behind the last one a rank that has said goodbye is missed by nobody.
int last_step_in(const fs::path& run) {
  std::istringstream log(tests::contents(run / "log.jsonl"));
  int last = 0;
  for (std::string line; std::getline(log, line);) {
    const auto entry = nlohmann::json::parse(line, nullptr, false);
    if (entry.contains("loss")) last = entry["step"];
  }
  return last;
}

int number_of(const Victim& victim) {
  return std::stoi(victim.name.substr(victim.name.find(' ') + 1));
}

/// Who was hit, by what it means for the others.
struct Losses {
  std::set<int> ranks;     ///< killed, or on a host whose launch was
  std::set<int> launches;  ///< by host
};

Losses losses_in(const Round& round, const Outcome& outcome) {
  Losses losses;
  for (const Victim& victim : outcome.victims) {
    if (victim.name.starts_with("launch")) losses.launches.insert(number_of(victim));
    if (victim.name.starts_with("rank")) losses.ranks.insert(number_of(victim));
  }
  for (int rank = 0; rank < round.ranks; ++rank) {
    if (losses.launches.contains(round.host_of(rank))) losses.ranks.insert(rank);
  }
  return losses;
}

/// The line of the launch of each killed rank's host: it names one of them, and only one.
void check_launch_lines(const Round& round, const Outcome& outcome, const Losses& losses, Faults& faults) {
  for (int host = 0; host < round.hosts; ++host) {
    const auto& [code, output, was_stopped] = outcome.hosts[static_cast<std::size_t>(host)];
    if (losses.launches.contains(host)) {
      if (code != killed) faults.push_back(fmt::format("launch {} was killed and ended with {}", host, code));
      continue;
    }
    Faults lines;
    for (const Victim& victim : outcome.victims) {
      if (!victim.name.starts_with("rank") || round.host_of(number_of(victim)) != host) continue;
      lines.push_back(fmt::format("launch: {} (pid {}) was killed by SIGKILL", victim.name, victim.pid));
    }
    if (lines.empty()) {
      const bool may_be = code == 0 || code == lost_peer || was_stopped;
      if (!may_be) faults.push_back(fmt::format("launch {} lost none and ended with {}", host, code));
      continue;
    }
    if (code != killed) faults.push_back(fmt::format("launch {} ended with {}, not {}", host, code, killed));
    const bool is_named = std::ranges::any_of(lines, [&](const auto& line) { return has(output, line); });
    if (!is_named || count_of(output, "launch: rank ") != 1) {
      faults.push_back(fmt::format("launch {} does not say one '{}'", host, fmt::join(lines, "' or '")));
    }
  }
}

/// At most one report, of a rank that was lost; exactly one of a loss in training that any rank survives.
void check_report(const Round& round, const Job& job, const Outcome& outcome, const Losses& losses,
                  Faults& faults) {
  int printed = 0;
  for (const auto& host : outcome.hosts) printed += count_of(host.output, "the run failed: ");
  int written = 0;
  for (int host = 0; host < (round.own_disks ? round.hosts : 1); ++host) {
    const fs::path file = job.run_of(host) / "failure.json";
    // That of a start before stays until the run has succeeded.
    if (!fs::exists(file) || fs::last_write_time(file) < outcome.start) continue;
    ++written;
    const auto report = json_in(file);
    if (report.is_discarded()) {
      faults.push_back(file.string() + " is no JSON");
      continue;
    }
    const std::string cause = report["cause"];
    const bool names_one =
        std::ranges::any_of(losses.ranks, [&](int rank) { return has(cause, fmt::format("rank {}", rank)); });
    if (!names_one) faults.push_back("failure.json names none of the victims: " + cause);
    for (const int rank : report["missing"]) {
      if (!losses.ranks.contains(rank)) faults.push_back(fmt::format("failure.json misses rank {}", rank));
    }
  }
  const bool survives = !losses.ranks.empty() && losses.ranks.size() < static_cast<std::size_t>(round.ranks);
  const bool trained = outcome.passes > 0 && last_step_in(job.run_of(0)) < steps;
  if (printed > 1 || written > 1) faults.push_back(fmt::format("{} reports, {} files", printed, written));
  if (survives && trained && printed == 0) faults.push_back("no report");
  const bool was_cut_short = outcome.time_to_end > most_to_report;
  if (survives && trained && printed == 1 && written == 0 && !was_cut_short)
    faults.push_back("no failure.json");
}

/// Tolerated, or a failure that says what and where.
void check_error(const Strike& strike, const Outcome& outcome, Faults& faults) {
  static const std::set<int> codes{0, 3, 4, 5};
  std::string all;
  bool failed = false;
  for (const auto& host : outcome.hosts) {
    all += host.output;
    failed = failed || host.code != 0;
    if (!codes.contains(host.code) && !host.was_stopped) {
      faults.push_back(fmt::format("after an error a launch ended with {}", host.code));
    }
  }
  if (count_of(all, "the run failed: ") > 1) faults.push_back("more than one report");
  if (!failed || strike.act == "ECONNRESET") return;
  const std::string reason = strike.act == "EIO" ? "Input/output error" : "No space left on device";
  if (!has(all, reason)) faults.push_back("nothing tells '" + reason + "'");
}

/// Behind the first forward pass all save and leave together, or have nothing left to do.
void check_stop(const Outcome& outcome, Faults& faults) {
  static const std::set<int> before_training{0, lost_peer, stopped, 128 + SIGTERM};
  const int code = outcome.hosts.front().code;
  const bool trained = outcome.passes > 0;
  for (const auto& host : outcome.hosts) {
    const bool may_be =
        trained ? host.code == code && (code == stopped || code == 0) : before_training.contains(host.code);
    if (!may_be)
      faults.push_back(fmt::format("stopped after {} passes it ended with {}", outcome.passes, host.code));
    if (trained && has(host.output, "the run failed: ")) faults.push_back("a report of a stop");
  }
}

bool is_free(int port) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM, 0));
  const int yes = 1;  // connections in TIME_WAIT are no holders
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

void check_nothing_left(const Job& job, const Outcome& outcome, Faults& faults) {
  if (outcome.hung) faults.push_back("launch did not end in time");
  if (!outcome.left.empty()) faults.push_back(fmt::format("left behind: {}", fmt::join(outcome.left, ", ")));
  if (!is_free(job.port())) faults.push_back(fmt::format("port {} is taken", job.port()));
}

void check_run_folder(const fs::path& run, Faults& faults) {
  for (const auto& entry : fs::recursive_directory_iterator(run)) {
    if (entry.path().filename().string().starts_with('.')) faults.push_back("left: " + entry.path().string());
  }
  if (fs::exists(run / "failure.json")) faults.push_back("failure.json outlives the failure");
  const fs::path newest = fmt::format("step-{:08}", steps);
  if (fs::read_symlink(run / "checkpoints/latest") != newest) faults.push_back("latest is not the last");
}

}  // namespace

std::string hash_in(const fs::path& run) {
  const auto summary = json_in(run / "summary.json");
  return summary.is_discarded() ? std::string() : summary["weights_sha256"].get<std::string>();
}

std::vector<std::string> faults_of_struck(const Round& round, const Strike& strike, const Job& job,
                                          const Outcome& outcome) {
  Faults faults;
  check_nothing_left(job, outcome, faults);
  if (outcome.hung) return faults;
  // A run that tolerates an error goes on to its own end.
  const bool failed = std::ranges::any_of(outcome.hosts, [](const auto& host) { return host.code != 0; });
  if (outcome.was_struck && failed && outcome.time_to_end > most_to_end) {
    faults.push_back(fmt::format("took {:.1f} s to end", outcome.time_to_end.count()));
  }
  if (outcome.was_struck && strike.is_error()) {
    check_error(strike, outcome, faults);
    return faults;
  }
  if (outcome.was_struck && strike.is_stop()) {
    check_stop(outcome, faults);
    return faults;
  }
  const Losses losses = losses_in(round, outcome);
  check_launch_lines(round, outcome, losses, faults);
  check_report(round, job, outcome, losses, faults);
  if (losses.ranks.empty()) {
    for (const auto& host : outcome.hosts) {
      if (host.code != 0) faults.push_back(fmt::format("no rank was hit, and it ended with {}", host.code));
    }
  }
  return faults;
}

std::vector<std::string> faults_of_end(const Round& round, const Job& job, const Outcome& outcome,
                                       const std::string& hash) {
  Faults faults;
  check_nothing_left(job, outcome, faults);
  for (const auto& host : outcome.hosts) {
    if (host.code != 0) faults.push_back(fmt::format("undisturbed it ended with {}", host.code));
  }
  if (!faults.empty()) return faults;
  if (hash_in(job.run_of(0)) != hash) faults.push_back("other weights than those of the undisturbed run");
  for (int host = 0; host < (round.own_disks ? round.hosts : 1); ++host) {
    check_run_folder(job.run_of(host), faults);
  }
  for (const auto& entry : fs::directory_iterator(job.temporary_folder())) {
    faults.push_back("left: " + entry.path().string());
  }
  return faults;
}

}  // namespace lockstep::nemesis
