#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>

namespace lockstep::runtime {

/// The communication stream of a CPU rank: a thread that runs exchanges in the order in which they were
/// posted, while the caller computes. Posting and waiting allocate nothing.
class ExchangeQueue {
 public:
  /// `exchange(bucket)` runs on the queue's thread.
  explicit ExchangeQueue(std::function<void(std::size_t bucket)> exchange);
  ~ExchangeQueue();
  ExchangeQueue(const ExchangeQueue&) = delete;
  ExchangeQueue& operator=(const ExchangeQueue&) = delete;

  void post(std::size_t bucket);
  /// Until everything posted is done; rethrows what an exchange threw.
  void wait_all();

 private:
  static constexpr std::size_t capacity = 1024;

  void run();

  std::function<void(std::size_t)> exchange_;
  std::size_t ring_[capacity] = {};
  std::atomic<std::uint32_t> posted_{0};
  std::atomic<std::uint32_t> done_{0};
  std::atomic<bool> stopping_{false};
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace lockstep::runtime
