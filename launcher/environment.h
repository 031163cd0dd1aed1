#pragma once

#include <cstdint>
#include <filesystem>
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
  int threads = 1;            ///< OMP_NUM_THREADS, unless the user set it
  std::int64_t start_ns = 0;  ///< CLOCK_BOOTTIME when launch began
  int terminal_columns = 0;   ///< 0: the output is no terminal
  std::string token;          ///< LOCKSTEP_TOKEN, unless the user set it; empty: none is made
  int gpus = 0;               ///< that ranks of this node may have
  bool allow_gpu_sharing = false;

  int first_rank() const { return node_rank * local_size; }
  int world_size() const { return node_count * local_size; }
};

/// The environment of `local_rank`: `inherited` ("NAME=value") with torchrun's variables and those about GPUs
/// (`gpu_variables.h`) put over it.
std::vector<std::string> worker_environment(const std::vector<std::string>& inherited, const Job& job,
                                            int local_rank, const std::filesystem::path& error_file);

}  // namespace lockstep::launcher
