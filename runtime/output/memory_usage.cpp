#include "runtime/output/memory_usage.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>

#include "kernels/base/number.h"
#include "kernels/base/unique_fd.h"

namespace lockstep::runtime {
namespace {

// The kernel walks the page tables for it: 1.3 ms where the model is small. Memory grows early in a run.
constexpr std::chrono::milliseconds first_interval{100};
constexpr std::chrono::milliseconds longest_interval{3200};

/// The "Pss:" line of smaps_rollup, which is in kB (proc(5)); 0 when the kernel has no such file.
std::int64_t proportional_set_size() {
  const UniqueFd file(::open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC));
  std::array<char, 2048> text{};
  const ssize_t length = file.get() < 0 ? 0 : ::read(file.get(), text.data(), text.size());
  std::string_view rest(text.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  const std::size_t line = rest.find("\nPss:");
  if (line == std::string_view::npos) return 0;
  rest.remove_prefix(line + 5);
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  return leading_number<std::int64_t>(rest) * 1024;
}

}  // namespace

MemoryWatch::MemoryWatch() : thread_([this] { run(); }) {}

MemoryWatch::~MemoryWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

std::int64_t MemoryWatch::peak_bytes() {
  sample();
  return peak_;
}

void MemoryWatch::run() {
  std::unique_lock lock(mutex_);
  for (auto interval = first_interval; !wake_.wait_for(lock, interval, [this] { return stopping_; });
       interval = std::min(2 * interval, longest_interval)) {
    sample();
  }
}

void MemoryWatch::sample() {
  const std::int64_t now = proportional_set_size();
  std::int64_t seen = peak_;
  while (now > seen && !peak_.compare_exchange_weak(seen, now)) {
  }
}

}  // namespace lockstep::runtime
