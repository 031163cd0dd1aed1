#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace lockstep::launcher {

/// A run, and what the ranks of this node have in common.
struct Job {
  std::string master_addr;
  int master_port = 0;
  std::string run_id;
  std::string role;
  int local_size = 1;  ///< ranks on this node, and on each other one
  int node_rank = 0;
  int node_count = 1;
  int threads = 1;  ///< OMP_NUM_THREADS, unless the user set it
  int restart = 0;  ///< how often the ranks have been started again
  int max_restarts = 0;
  std::int64_t start_ns = 0;  ///< CLOCK_BOOTTIME when launch began, or began to start them again
  int terminal_columns = 0;   ///< 0: the output is no terminal
  std::string token;          ///< LOCKSTEP_TOKEN, unless the user set it; empty: none is made
  int gpus = 0;               ///< that ranks of this node may have
  bool allow_gpu_sharing = false;

  int first_rank() const { return node_rank * local_size; }
  int world_size() const { return node_count * local_size; }
};

/// The environment of `local_rank`: `inherited` ("NAME=value") with torchrun's variables and those about GPUs
/// put over it.
std::vector<std::string> worker_environment(const std::vector<std::string>& inherited, const Job& job,
                                            int local_rank, const std::filesystem::path& error_file);

using Variables = std::map<std::string, std::string, std::less<>>;

/// What a rank must be told about GPUs, whatever it inherits. `visible`: the CUDA_VISIBLE_DEVICES that it
/// inherits, or empty. Parts of divided GPUs (MIG) are dealt out: a process sees only the first of a list.
/// With --allow-gpu-sharing ranks may share; where they must, NCCL is told that each is on a host of its own,
/// since it refuses a GPU that two ranks of one host have.
Variables gpu_variables(const Job& job, int local_rank, const std::string& visible);

/// The rest of what makes NCCL work so, unless the user has set it: sockets, as between nodes, and few
/// blocks, which leave room for the other rank's kernels.
Variables shared_gpu_defaults(const Job& job);

/// A TCP port that is free on `address` now. UsageError when the name does not resolve; an address that is
/// not this machine's is asked for on all interfaces.
int free_port(const std::string& address);

}  // namespace lockstep::launcher
