#include "launcher/environment.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "comm/net/tcp.h"
#include "comm/world/environment.h"
#include "kernels/base/deadline.h"
#include "kernels/base/error.h"
#include "kernels/base/gpus.h"
#include "kernels/base/unique_fd.h"

namespace lockstep::launcher {
namespace {

std::string_view name_of(std::string_view variable) {
  return variable.substr(0, variable.find('='));
}

/// Tells a Lockstep worker that no agent's store listens at MASTER_PORT, when its start-up clock began, and
/// whether to draw a progress bar.
std::string launch_info_text(const Job& job) {
  return comm::to_string({.addr = job.master_addr,
                          .port = job.master_port,
                          .start_boottime_ns = job.start_ns,
                          .columns = job.terminal_columns});
}

Variables torchrun_variables(const Job& job, int local_rank, const std::filesystem::path& error_file) {
  const std::string rank = std::to_string(job.first_rank() + local_rank);
  const std::string size = std::to_string(job.world_size());
  return {
      {"RANK", rank},
      {"LOCAL_RANK", std::to_string(local_rank)},
      {"ROLE_RANK", rank},
      {"GROUP_RANK", std::to_string(job.node_rank)},
      {"WORLD_SIZE", size},
      {"LOCAL_WORLD_SIZE", std::to_string(job.local_size)},
      {"ROLE_WORLD_SIZE", size},
      {"GROUP_WORLD_SIZE", std::to_string(job.node_count)},
      {"ROLE_NAME", job.role},
      {"MASTER_ADDR", job.master_addr},
      {"MASTER_PORT", std::to_string(job.master_port)},
      {"TORCHELASTIC_RESTART_COUNT", std::to_string(job.restart)},
      {"TORCHELASTIC_MAX_RESTARTS", std::to_string(job.max_restarts)},
      {"TORCHELASTIC_RUN_ID", job.run_id},
      // No agent's store listens at MASTER_PORT: a PyTorch worker of rank 0 hosts it itself.
      {"TORCHELASTIC_USE_AGENT_STORE", "False"},
      {"TORCHELASTIC_ERROR_FILE", error_file.string()},
      {comm::launch_variable, launch_info_text(job)},
  };
}

std::string value_of(const std::vector<std::string>& variables, std::string_view name) {
  const auto found = std::ranges::find(variables, name, name_of);
  return found == variables.end() ? std::string() : found->substr(name.size() + 1);
}

/// Set unless the user's own value is inherited.
Variables default_variables(const Job& job) {
  Variables variables{{"OMP_NUM_THREADS", std::to_string(job.threads)}};
  if (!job.token.empty()) variables["LOCKSTEP_TOKEN"] = job.token;
  variables.merge(shared_gpu_defaults(job));
  return variables;
}

bool must_share(const Job& job) {
  return job.allow_gpu_sharing && job.local_size > job.gpus;
}

/// The one of several parts that is this rank's; empty when CUDA can tell them apart by itself.
std::string own_part(const std::string& visible, int local_rank) {
  const std::vector<std::string> devices = visible_devices(visible);
  if (devices.size() < 2 || !std::ranges::all_of(devices, is_mig)) return {};
  return devices[static_cast<std::size_t>(local_rank) % devices.size()];
}

constexpr Seconds time_to_resolve{10};

}  // namespace

std::vector<std::string> worker_environment(const std::vector<std::string>& inherited, const Job& job,
                                            int local_rank, const std::filesystem::path& error_file) {
  Variables variables = torchrun_variables(job, local_rank, error_file);
  variables.merge(gpu_variables(job, local_rank, value_of(inherited, "CUDA_VISIBLE_DEVICES")));
  for (const auto& [name, value] : default_variables(job)) {
    const auto is_set = [&name = name](const std::string& v) {
      return name_of(v) == name && v != "OMP_NUM_THREADS=";  // which says nothing
    };
    if (std::ranges::none_of(inherited, is_set)) variables[name] = value;
  }

  std::vector<std::string> result;
  for (const std::string& variable : inherited) {
    if (!variables.contains(name_of(variable))) result.push_back(variable);
  }
  for (const auto& [name, value] : variables) result.push_back(name + "=" + value);
  return result;
}

Variables gpu_variables(const Job& job, int local_rank, const std::string& visible) {
  Variables variables;
  if (job.allow_gpu_sharing) variables["LOCKSTEP_GPU_SHARING"] = "1";
  if (must_share(job)) variables["NCCL_HOSTID"] = "rank" + std::to_string(job.first_rank() + local_rank);
  if (std::string part = own_part(visible, local_rank); !part.empty()) {
    variables["CUDA_VISIBLE_DEVICES"] = std::move(part);
  }
  return variables;
}

Variables shared_gpu_defaults(const Job& job) {
  if (!must_share(job)) return {};
  Variables variables{{"NCCL_NET", "Socket"},
                      {"NCCL_P2P_DISABLE", "1"},
                      {"NCCL_SHM_DISABLE", "1"},
                      {"NCCL_NVLS_ENABLE", "0"},
                      {"NCCL_MAX_CTAS", "4"}};
  if (job.node_count == 1) variables["NCCL_SOCKET_IFNAME"] = "lo";
  return variables;
}

int free_port(const std::string& address) {
  const comm::Resolution found = comm::resolve(address, 0, Deadline::in(time_to_resolve));
  const addrinfo* const own = found.list.get();
  if (own == nullptr) throw UsageError(fmt::format("--master-addr: {}", found.problem));
  const UniqueFd socket(::socket(own->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) throw DeviceError(fmt::format("no socket for a free port: {}", errno_message(errno)));
  // listen() on a socket whose bind failed takes a free port on all interfaces.
  if (::bind(socket.get(), own->ai_addr, own->ai_addrlen) != 0 && ::listen(socket.get(), 1) != 0) {
    throw DeviceError(
        fmt::format("no free port on {}: {}; give --master-port", address, errno_message(errno)));
  }
  return comm::local_port(socket.get());
}

}  // namespace lockstep::launcher
