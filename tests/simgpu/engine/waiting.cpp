#include "tests/simgpu/engine/waiting.h"

#include <cstdio>
#include <map>
#include <vector>

#include "tests/simgpu/engine/names.h"
#include "tests/simgpu/engine/thread_scheduler.h"

namespace simgpu {
namespace {

/// "0-31, 40" of numbers that ascend.
std::string ranges(const std::vector<std::uint32_t>& numbers) {
  std::string text;
  for (std::size_t first = 0; first < numbers.size();) {
    std::size_t last = first;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += (text.empty() ? "" : ", ") + std::to_string(numbers[first]);
    if (last > first) text += "-" + std::to_string(numbers[last]);
    first = last + 1;
  }
  return text;
}

}  // namespace

std::string who_waits(const ThreadScheduler& scheduler) {
  std::map<std::string, std::vector<std::uint32_t>> waiting;
  for (std::uint32_t number = 0; number < scheduler.size(); ++number) {
    const Thread& thread = scheduler.thread(number);
    if (thread.call) waiting[call_text(*thread.call, thread.mask)].push_back(number);
  }
  std::string text;
  for (const auto& [call, numbers] : waiting) {
    text += (text.empty() ? "" : "; ") + std::string(numbers.size() > 1 ? "threads " : "thread ") +
            ranges(numbers) + (numbers.size() > 1 ? " wait in " : " waits in ") + call;
  }
  return text;
}

KernelMistake deadlock(const ThreadScheduler& scheduler) {
  return {"deadlock", running_block_text() + ": " + who_waits(scheduler) +
                          ", and no thread is left that could come: let all reach the same calls"};
}

void throw_deadlock(const ThreadScheduler& scheduler) {
  throw deadlock(scheduler);
}

}  // namespace simgpu
