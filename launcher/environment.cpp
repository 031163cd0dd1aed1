#include "launcher/environment.h"

#include <algorithm>
#include <map>

#include "comm/bootstrap/launch_info.h"

namespace lockstep::launcher {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

std::string_view name_of(std::string_view variable) {
  return variable.substr(0, variable.find('='));
}

/// Tells a Lockstep worker that launch keeps the port for it, when its start-up clock began, and whether to draw a
/// progress bar.
std::string launch_info_text(const Job& job) {
  return comm::to_string({.addr = job.master_addr,
                          .port = job.master_port,
                          .start_boottime_ns = job.start_ns,
                          .columns = job.terminal_columns});
}

Variables torchrun_variables(const Job& job, int rank, const std::filesystem::path& error_file) {
  const std::string own = std::to_string(rank);
  const std::string size = std::to_string(job.world_size);
  return {
      {"RANK", own},
      {"LOCAL_RANK", own},
      {"ROLE_RANK", own},
      {"GROUP_RANK", "0"},
      {"WORLD_SIZE", size},
      {"LOCAL_WORLD_SIZE", size},
      {"ROLE_WORLD_SIZE", size},
      {"GROUP_WORLD_SIZE", "1"},
      {"ROLE_NAME", job.role},
      {"MASTER_ADDR", job.master_addr},
      {"MASTER_PORT", std::to_string(job.master_port)},
      {"TORCHELASTIC_RESTART_COUNT", "0"},
      {"TORCHELASTIC_MAX_RESTARTS", "0"},
      {"TORCHELASTIC_RUN_ID", job.run_id},
      // No agent's store listens at MASTER_PORT: a PyTorch worker of rank 0 hosts it itself.
      {"TORCHELASTIC_USE_AGENT_STORE", "False"},
      {"TORCHELASTIC_ERROR_FILE", error_file.string()},
      {comm::launch_variable, launch_info_text(job)},
  };
}

}  // namespace


std::vector<std::string> worker_environment(const std::vector<std::string>& inherited, const Job& job,
                                            int rank, const std::filesystem::path& error_file) {
  Variables variables = torchrun_variables(job, rank, error_file);
  const auto sets_threads = [](const std::string& v) { return name_of(v) == "OMP_NUM_THREADS"; };
  if (std::ranges::none_of(inherited, sets_threads))
    variables["OMP_NUM_THREADS"] = std::to_string(job.threads);

  std::vector<std::string> result;
  for (const std::string& variable : inherited) {
    if (!variables.contains(name_of(variable))) result.push_back(variable);
  }
  for (const auto& [name, value] : variables) result.push_back(name + "=" + value);
  return result;
}

}  // namespace lockstep::launcher
