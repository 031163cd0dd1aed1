#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace lockstep::runtime {

/// The communication stream of a CPU rank: a thread that runs exchanges in the order in which they were
/// posted, while the caller computes. Posting and waiting allocate nothing.
class ExchangeQueue {
 public:
  /// `exchange(what)` runs on the queue's thread for each posted `what`; at most `capacity` of them are
  /// pending.
  ExchangeQueue(std::size_t capacity, std::function<void(std::size_t what)> exchange);
  ~ExchangeQueue();
  ExchangeQueue(const ExchangeQueue&) = delete;
  ExchangeQueue& operator=(const ExchangeQueue&) = delete;

  /// Waits while the queue is full.
  void post(std::size_t what);
  /// Until everything posted is done; rethrows what an exchange threw.
  void wait_all();

 private:
  void run();

  std::function<void(std::size_t)> exchange_;
  std::vector<std::size_t> ring_;  ///< a power of two, so that the counters may overflow
  std::atomic<std::uint32_t> posted_{0};
  std::atomic<std::uint32_t> done_{0};
  std::atomic<bool> stopping_{false};
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace lockstep::runtime
