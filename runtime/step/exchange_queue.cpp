#include "runtime/step/exchange_queue.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <cstdint>
#include <utility>

#include "kernels/base/deadline.h"

namespace lockstep::runtime {
namespace {

/// `struct sched_attr` of sched_setattr(2), version 1: the kernel's header clashes with <thread>.
struct SchedulerAttributes {
  std::uint32_t size = sizeof(SchedulerAttributes);
  std::uint32_t policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime_ns = 0;
  std::uint64_t deadline_ns = 0;
  std::uint64_t period_ns = 0;
  std::uint32_t least_utilisation = 0;
  std::uint32_t most_utilisation = 0;
};
static_assert(sizeof(SchedulerAttributes) == 56);

/// Asks the scheduler for short time slices of a thread, and for these soon after it wakes if it may
/// interrupt others: the thread shares its core with compute and mostly waits. Its share of the core, by nice
/// value, stays what the user gave the process. Linux 6.12 and newer honour the slices, older kernels ignore
/// them. False, and no change, where the policy is not one of the two.
bool schedule(int thread, bool interrupts) noexcept {
  constexpr std::uint64_t least_ns = 100'000;  // the kernel takes none below
  SchedulerAttributes attributes;
  if (::syscall(SYS_sched_getattr, thread, &attributes, sizeof attributes, 0) != 0) return false;
  if (attributes.policy != SCHED_OTHER && attributes.policy != SCHED_BATCH) return false;
  attributes.policy = interrupts ? SCHED_OTHER : SCHED_BATCH;
  attributes.runtime_ns = least_ns;
  return ::syscall(SYS_sched_setattr, thread, &attributes, 0) == 0;
}

}  // namespace

ExchangeQueue::ExchangeQueue(std::size_t capacity, std::function<void(std::size_t)> exchange)
    : exchange_(std::move(exchange)), ring_(std::bit_ceil(capacity)), thread_([this] { run(); }) {}

ExchangeQueue::~ExchangeQueue() {
  stopping_ = true;
  ++posted_;  // wakes the thread, which looks at stopping_ first
  posted_.notify_one();
  thread_.join();
}

ExchangeQueue::Ticket ExchangeQueue::post(std::size_t what) {
  const std::uint32_t posted = posted_.load(std::memory_order_relaxed);
  for (std::uint32_t done = done_.load(std::memory_order_acquire); posted - done >= ring_.size();
       done = done_.load(std::memory_order_acquire)) {
    done_.wait(done, std::memory_order_acquire);
  }
  ring_[posted % ring_.size()] = what;
  posted_.fetch_add(1, std::memory_order_release);
  posted_.notify_one();
  return posted + 1;
}

void ExchangeQueue::wait(Ticket until) {
  const auto is_missing = [until](std::uint32_t done) { return static_cast<std::int32_t>(until - done) > 0; };
  for (std::uint32_t done = done_.load(std::memory_order_acquire); is_missing(done);
       done = done_.load(std::memory_order_acquire)) {
    done_.wait(done, std::memory_order_acquire);
  }
  if (has_failed_.load(std::memory_order_acquire)) std::rethrow_exception(failure_);
}

void ExchangeQueue::interrupt_others(bool interrupt) noexcept {
  if (const int thread = thread_id_; thread != 0) schedule(thread, interrupt);
}

std::optional<std::chrono::duration<double>> ExchangeQueue::take_mean_time() {
  const std::uint32_t count = done_.load(std::memory_order_acquire) - timed_;
  if (count == 0) return std::nullopt;
  timed_ += count;
  return std::chrono::nanoseconds(busy_ns_.exchange(0)) / static_cast<double>(count);
}

void ExchangeQueue::run() {
  const auto thread = static_cast<int>(::syscall(SYS_gettid));
  const bool interrupts = sched_getscheduler(0) == SCHED_OTHER;
  if (schedule(thread, interrupts) && interrupts) thread_id_ = thread;
  for (std::uint32_t next = 0;; ++next) {
    posted_.wait(next, std::memory_order_acquire);
    if (stopping_) return;
    const auto start = Clock::now();
    try {
      if (!has_failed_) exchange_(ring_[next % ring_.size()]);
    } catch (...) {
      failure_ = std::current_exception();
      has_failed_.store(true, std::memory_order_release);
    }
    busy_ns_ += std::chrono::nanoseconds(Clock::now() - start).count();
    done_.store(next + 1, std::memory_order_release);
    done_.notify_one();
  }
}

}  // namespace lockstep::runtime
