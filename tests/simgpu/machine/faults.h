#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace simgpu {

/// Counts CUDA calls, and makes one fail when the settings ask for it, or a run of a kernel.
class Faults {
 public:
  using Calls = std::map<std::string, std::uint64_t, std::less<>>;

  /// The call that is to fail is one of all, or of `fail_function`'s.
  Faults(std::uint64_t fail_call, std::string fail_function, std::uint64_t fail_run)
      : fail_call_(fail_call), fail_function_(std::move(fail_function)), fail_run_(fail_run) {}

  /// True: this is the call that is to fail.
  bool count(std::string_view function);
  /// Of the kernel that is to fail: counts its runs; true: this is the one.
  bool is_failing_run();
  /// Of a call that is none of CUDA's and cannot be made to fail.
  void note(std::string_view function);
  std::uint64_t calls(std::string_view function) const;
  Calls all_calls() const;

 private:
  mutable std::mutex mutex_;
  std::uint64_t fail_call_;
  std::string fail_function_;  ///< empty: any
  std::uint64_t total_ = 0;    ///< calls that count
  std::uint64_t fail_run_;
  std::uint64_t runs_ = 0;
  Calls calls_;
};

/// Errors after which nothing works any more until the process ends, as on a GPU.
bool is_sticky(cudaError_t error);

}  // namespace simgpu
