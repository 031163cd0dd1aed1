#include "runtime/checkpoint/restart.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>
#include <vector>

#include <fmt/format.h>

#include "kernels/base/file.h"
#include "kernels/base/host.h"
#include "runtime/checkpoint/checkpoint_directory.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;

/// The variables in which a launcher counts its restarts and names its job.
struct Launcher {
  const char* restarts;
  const char* job;
};
constexpr std::array launchers{Launcher{"TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_RUN_ID"},
                               Launcher{"SLURM_RESTART_COUNT", "SLURM_JOB_ID"}};

/// A line for one agent of torchrun or launch, which restarts its ranks: the folder of its logs, whose name
/// has a random part, else the agent's process.
std::string agent_of(const comm::Environment& environment) {
  const std::string report = environment("TORCHELASTIC_ERROR_FILE").value_or("");
  if (const auto end = report.rfind("/attempt_"); end != std::string::npos)
    return fmt::format("TORCHELASTIC_ERROR_FILE={}\n", report.substr(0, end));
  const pid_t agent = ::getppid();
  return fmt::format("AGENT={} {} {}\n", boot_id(), agent, start_ticks(std::to_string(agent)).value_or(0));
}

/// A line that a restart of the job has, too, and no other job; empty where there is no such launcher.
std::string job_of(const Launcher& launcher, const comm::Environment& environment) {
  const std::string id = environment(launcher.job).value_or("");
  const bool is_name = !id.empty() && id != "none";  // torchrun's --rdzv-id is "none" where nothing is typed
  if (is_name) return fmt::format("{}={}\n", launcher.job, id);
  return environment(launcher.restarts) ? agent_of(environment) : std::string();
}

/// Of the launchers that say that they have restarted the run; empty if none does.
std::string restarted_jobs(const comm::Environment& environment) {
  std::string jobs;
  for (const Launcher& launcher : launchers) {
    const bool restarts = std::atoi(environment(launcher.restarts).value_or("0").c_str()) > 0;
    if (restarts) jobs += job_of(launcher, environment);
  }
  return jobs;
}

/// Whether the last run in this folder was one of these jobs.
bool was_used_by(const std::string& jobs, const fs::path& run) {
  const std::string lock = read_text(run / "lock");
  std::istringstream lines(jobs);
  for (std::string job; std::getline(lines, job);) {
    if (lock.find('\n' + job + '\n') != std::string::npos) return true;
  }
  return false;
}

/// What there is for a restart of these jobs.
std::string found_in(const fs::path& run, const std::string& jobs) {
  if (!holds_a_run(run)) return "nothing";
  if (!was_used_by(jobs, run)) return "another run";
  return CheckpointDirectory(run / "checkpoints").steps().empty() ? "results" : "checkpoints";
}

}  // namespace

std::string default_resume(const comm::Environment& environment) {
  return restarted_jobs(environment).empty() ? "none" : "auto";
}

std::string launcher_jobs(const comm::Environment& environment) {
  std::string jobs;
  for (const Launcher& launcher : launchers) jobs += job_of(launcher, environment);
  return jobs;
}

std::string launcher_jobs(comm::Communicator& communicator, const comm::Environment& environment) {
  std::string jobs;
  for (const std::string& job : communicator.all_gather(launcher_jobs(environment))) {
    if (jobs.find(job) == std::string::npos) jobs += job;
  }
  return jobs;
}

void follow_restart(comm::Communicator& communicator, RunDirectory& run_directory,
                    const comm::Environment& environment, Activity* activity) {
  const std::string jobs = communicator.all_gather(restarted_jobs(environment)).front();
  if (jobs.empty()) return;
  std::string mine;
  if (run_directory.writes_checkpoints) {
    const Activity::Work work(activity, "looking at " + run_directory.run.string());
    mine = found_in(run_directory.run, jobs);
  }
  const std::vector<std::string> found = communicator.all_gather(mine);
  const auto any = [&](const std::string& what) { return std::ranges::find(found, what) != found.end(); };
  if (any("another run")) return;
  // Without a checkpoint of its own it begins once more with the one that was named.
  if (names_a_path(run_directory.resume) && !any("checkpoints")) return;
  run_directory.resume = "auto";
  run_directory.resuming = true;
}

}  // namespace lockstep::runtime
