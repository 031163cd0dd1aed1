#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
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

  /// What was posted so far, as a number of exchanges; it overflows.
  using Ticket = std::uint32_t;

  /// Waits while the queue is full.
  Ticket post(std::size_t what);
  /// Until that one and all before it are done; rethrows what an exchange threw.
  void wait(Ticket until);
  /// Until everything posted is done; rethrows what an exchange threw.
  void wait_all() { wait(posted_.load(std::memory_order_relaxed)); }
  /// How many of those posted are not done.
  std::size_t pending() const {
    return posted_.load(std::memory_order_relaxed) - done_.load(std::memory_order_acquire);
  }
  /// Whether the queue's thread runs as soon as it can, in place of a thread that computes on its core, as it
  /// does from the start, or when that one sleeps, yields or has used up its time slice. Nothing where the
  /// user gave the process another policy than SCHED_OTHER.
  void interrupt_others(bool interrupt) noexcept;

  /// The mean of those that were done since the last call; nothing without any.
  std::optional<std::chrono::duration<double>> take_mean_time();

 private:
  void run();

  std::function<void(std::size_t)> exchange_;
  std::vector<std::size_t> ring_;  ///< a power of two, so that the counters may overflow
  std::atomic<std::uint32_t> posted_{0};
  std::atomic<std::uint32_t> done_{0};
  std::atomic<std::int64_t> busy_ns_{0};  ///< with those of `done_`
  std::uint32_t timed_ = 0;               ///< of `done_`, when their mean was taken
  std::atomic<bool> stopping_{false};
  std::atomic<int> thread_id_{0};  ///< the system's, once the thread runs, if it may interrupt others
  std::exception_ptr failure_;     ///< written once, before `has_failed_`
  std::atomic<bool> has_failed_{false};
  std::thread thread_;
};

}  // namespace lockstep::runtime
