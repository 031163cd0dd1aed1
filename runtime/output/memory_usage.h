#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace lockstep::runtime {

/// Follows this process's proportional set size (shared pages divided among those who map them), ever less
/// often.
class MemoryWatch {
 public:
  MemoryWatch();
  ~MemoryWatch();
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

  /// Highest so far, now included.
  std::int64_t peak_bytes();

 private:
  void run();
  void sample();

  std::atomic<std::int64_t> peak_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace lockstep::runtime
