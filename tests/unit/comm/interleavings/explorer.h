#pragma once

#include <ucontext.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

#include "tests/unit/comm/interleavings/memory.h"

namespace lockstep::interleavings {

/// Runs a program of a few threads again and again, until every order of their accesses to memory and every
/// value that they may read has had its turn: depth first, without what leads to a state that was there
/// before. Threads must do the same when they read the same.
class Explorer {
 public:
  /// For those who sleep (futex_wait) while nobody else goes on: that is a fault, or their time-outs pass.
  enum class Time { stands_still, passes };
  explicit Explorer(Time time = Time::stands_still);
  Explorer(const Explorer&) = delete;

  using Threads = std::vector<std::function<void()>>;
  struct Result {
    std::int64_t runs = 0;
    std::int64_t states = 0;
    std::string fault;  ///< the first one, and the threads in the order of their accesses; empty: none
  };
  /// `program` makes the memory and gives the threads, anew for each run.
  Result explore(const std::function<Threads()>& program);

  int add_location(std::uint32_t value) { return memory_.add_location(value); }

  // By the thread that runs.

  std::uint32_t load(int location, std::memory_order order);
  void store(int location, std::uint32_t value, std::memory_order order);
  std::uint32_t fetch_add(int location, std::uint32_t summand, std::memory_order order);
  std::uint32_t read(int location);
  void write(int location, std::uint32_t value);
  void sleep_while(int location, std::uint32_t expected);
  void wake_all(int location);
  /// From here on it does the same whatever it has read so far.
  void begin_phase(std::uint64_t phase);
  void check(bool holds, const char* what);

 private:
  struct Thread {
    enum class State { ready, asleep, done } state = State::ready;
    int sleeps_on = 0;
    std::uint64_t history = 0;  ///< of its phase and what it has read since
    std::uint64_t turns = 0;    ///< of this phase
    ucontext_t context{};
    std::vector<std::byte> stack = std::vector<std::byte>(std::size_t{64} << 10);
    std::function<void()> body;
  };
  struct Choice {
    int taken;
    int of;
  };

  static void enter(unsigned high, unsigned low);
  void start(Threads threads);
  void run(const std::function<Threads()>& program);
  /// Threads that can go on, or whose time-outs pass.
  std::vector<int> ready() const;
  bool is_new_state();
  int choose(int of);
  bool next_path();
  /// Others may go first; then the thread makes its access.
  void before_access();
  std::uint32_t have_read(std::uint32_t value);
  void fail(const std::string& what);
  Thread& running() { return threads_[static_cast<std::size_t>(running_)]; }

  Time time_;
  Memory memory_;
  std::array<Thread, most_threads> threads_;
  int count_ = 0;
  int running_ = 0;
  ucontext_t scheduler_{};
  std::vector<Choice> path_;
  std::size_t at_ = 0;  ///< in `path_`
  std::unordered_set<std::uint64_t> states_;
  std::string order_;
  std::string fault_;
};

/// What a std::atomic<std::uint32_t> is.
class Atomic {
 public:
  explicit Atomic(Explorer& explorer) : explorer_(explorer), location_(explorer.add_location(0)) {}

  std::uint32_t load(std::memory_order order = std::memory_order_seq_cst) const {
    return explorer_.load(location_, order);
  }
  void store(std::uint32_t value, std::memory_order order = std::memory_order_seq_cst) {
    explorer_.store(location_, value, order);
  }
  std::uint32_t fetch_add(std::uint32_t summand, std::memory_order order = std::memory_order_seq_cst) {
    return explorer_.fetch_add(location_, summand, order);
  }
  std::uint32_t fetch_sub(std::uint32_t subtrahend, std::memory_order order = std::memory_order_seq_cst) {
    return explorer_.fetch_add(location_, 0 - subtrahend, order);
  }
  /// As the futex of that name.
  void sleep_while(std::uint32_t expected) { explorer_.sleep_while(location_, expected); }
  void wake_all() { explorer_.wake_all(location_); }

 private:
  Explorer& explorer_;
  int location_;
};

/// Memory that is not atomic: two accesses at once, one a write, are a fault.
class Variable {
 public:
  explicit Variable(Explorer& explorer) : explorer_(explorer), location_(explorer.add_location(0)) {}

  std::uint32_t read() const { return explorer_.read(location_); }
  void write(std::uint32_t value) { explorer_.write(location_, value); }

 private:
  Explorer& explorer_;
  int location_;
};

}  // namespace lockstep::interleavings
