#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::launcher {

/// What the ranks of one node have in common.
struct Job {
  std::string master_addr;
  int master_port = 0;
  std::string run_id;
  std::string role;
  int world_size = 1;
  int threads = 1;            ///< OMP_NUM_THREADS, unless the user set it
  std::int64_t start_ns = 0;  ///< CLOCK_BOOTTIME when launch began
  int terminal_columns = 0;   ///< 0: the output is no terminal
};

/// The environment of `rank`: `inherited` ("NAME=value") with torchrun's variables put over it.
std::vector<std::string> worker_environment(const std::vector<std::string>& inherited, const Job& job,
                                            int rank, const std::filesystem::path& error_file);

}  // namespace lockstep::launcher
