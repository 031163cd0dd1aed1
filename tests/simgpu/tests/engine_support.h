#pragma once

#include <functional>
#include <string>

#include "tests/simgpu/language.h"
#include "tests/support/catch.h"

namespace simgpu::test {

/// Runs a grid of these threads.
void run(dim3 blocks, dim3 threads, const std::function<void()>& thread, std::size_t shared_bytes = 0);

struct KernelMistakeSeen {
  std::string kind = "none";
  std::string text;
};

/// The mistake that this reports.
KernelMistakeSeen mistake_in(const std::function<void()>& program);
/// The mistake that is reported when this grid runs.
KernelMistakeSeen mistake_of(dim3 blocks, dim3 threads, const std::function<void()>& thread,
                             std::size_t shared_bytes = 0);

/// Sets a variable of the environment for as long as it lives.
class Environment {
 public:
  Environment(std::string name, const std::string& value);
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::string name_;
  std::string before_;
  bool was_set_;
};

}  // namespace simgpu::test
