#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace simgpu {

/// When operations run: at once, only when something waits for them, or in a seeded mixture.
enum class Policy { eager, lazy, random };

struct Settings {
  int devices = 1;
  std::vector<int> physical;  ///< their numbers on the machine; empty: their own
  Policy policy = Policy::eager;
  std::uint64_t seed = 0;                             ///< of Policy::random
  std::size_t device_bytes = std::size_t{512} << 20;  ///< capacity of each device
  int capability = 90;                                ///< compute capability: 75 for 7.5
  int code = 0;   ///< the capability that kernels were compiled for; 0: the devices'
  int held = -1;  ///< physical number of one that nobody may choose
  std::size_t pinned_bytes = std::size_t{1} << 32;  ///< of all pinned memory; pages count when touched
  std::uint64_t fail_call = 0;                      ///< the call, counted from 1, that fails; 0: none
  std::string fail_function;                        ///< whose calls are counted; empty: all
  std::string fail_kernel;       ///< part of the name or place of launch of a kernel that fails
  std::uint64_t fail_run = 0;    ///< which of its runs, counted from 1; 0: none
  bool launch_blocking = false;  ///< CUDA_LAUNCH_BLOCKING: a launch returns when the kernel has ended
  bool report_leaks = false;
  std::string trace;  ///< file for what becomes of every operation; empty: none
  std::string calls;  ///< file for the number of calls of each function, written at the end; empty: none

  int physical_number(int device) const {
    return physical.empty() ? device : physical[static_cast<std::size_t>(device)];
  }
};

/// Reads CUDA_VISIBLE_DEVICES and the variables SIMGPU_… that the README lists. A value that cannot be read
/// ends the process: a test that silently ran with another policy would prove nothing.
Settings settings_from_environment();

}  // namespace simgpu
