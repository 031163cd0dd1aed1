#include "data/loader.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

#include <fmt/format.h>

#include "data/batch_filler.h"
#include "data/prefetch.h"
#include "kernels/base/error.h"

namespace lockstep::data {
namespace {

constexpr std::size_t most_held = 2;  // batches that the caller may hold while it asks for another
constexpr std::size_t deepest_ring = 64;
constexpr std::size_t deep_ring_bytes = 2 * 1024 * 1024;  // that deeper prefetch of small batches may take

LoaderOptions checked(LoaderOptions options) {
  const auto require = [](const char* what, std::int64_t given, std::int64_t least) {
    if (given < least)
      throw UsageError(fmt::format("{} {} is too small: give {} or more", what, given, least));
  };
  require("batch size", options.batch_size, 1);
  require("number of batches of a step", options.batches_per_step, 1);
  require("number of loader workers", options.workers, 0);
  require("prefetch factor", options.prefetch_factor, 1);
  require("first batch", options.first_batch, 0);
  return options;
}

/// The ring that the options ask for.
std::size_t least_slots(const LoaderOptions& options) {
  return most_held + 1 +
         static_cast<std::size_t>(options.workers) * static_cast<std::size_t>(options.prefetch_factor);
}

std::size_t batch_bytes_of(const LoaderOptions& options, const SampleSpec& spec) {
  return bytes_of_all("a batch", static_cast<std::size_t>(options.batch_size),
                      spec.input_bytes() + spec.target_bytes() + spec.states_bytes());
}

}  // namespace

/// Deep for small batches, so that workers are woken seldom, and then for many batches.
std::size_t loader_slots(const LoaderOptions& options, std::size_t batch_bytes) {
  const std::size_t least = least_slots(options);
  if (options.workers == 0) return least;
  return std::max(least, std::min(deepest_ring, deep_ring_bytes / batch_bytes));
}

/// Workers claim batches in order from the queue and fill the ring's slots; `next` takes them in order. A
/// worker that finds the ring full sleeps until enough slots are free to be worth waking for. `next` sleeps
/// only for a batch that a worker is filling: a batch that no worker has claimed it fills itself.
class Loader::Impl {
 public:
  Impl(const DatasetPtr& dataset, Indices indices, LoaderOptions options);
  ~Impl() { stop(); }

  std::optional<Batch> next(Deadline deadline);
  void release(const Batch& batch);
  std::string describe_next() const;

 private:
  using Lock = std::unique_lock<std::mutex>;
  static constexpr std::uint64_t none = ~std::uint64_t{0};
  static constexpr int caller = -1;  ///< in a worker's place

  void start();
  void stop() noexcept;
  void work(int worker);
  bool claim_and_fill(Lock& lock, int worker);
  void fill(const BatchQueue::Claim& claim, int worker);
  void make_order(Lock& lock);
  void sleep_until_there_is_room(Lock& lock);
  bool bring_next(Deadline deadline);
  void sleep_until_next_is_ready(Lock& lock, Deadline deadline);

  const LoaderOptions options_;
  const BatchFiller filler_;
  BatchRing ring_;
  const std::uint64_t worth_waking_for_;  ///< free slots
  std::atomic<std::uint64_t> next_{0};  ///< number of the batch that `next` gives; only the caller writes it
  std::uint64_t released_ = 0;          ///< number of the batch that comes back next

  std::mutex mutex_;
  BatchQueue queue_;       ///< guarded by mutex_
  bool stopping_ = false;  ///< guarded by mutex_
  std::condition_variable workers_wake_;
  std::condition_variable caller_wakes_;
  /// The batch whose slot must become free before workers wake, and the batch that must be ready before the
  /// caller wakes. A sleeper stores the number and then reads the slot; the other side changes the slot and
  /// then reads the number; all accesses are sequentially consistent, so one side sees the other.
  alignas(64) std::atomic<std::uint64_t> workers_await_{none};
  alignas(64) std::atomic<std::uint64_t> caller_awaits_{none};
  std::vector<std::thread> threads_;
};

Loader::Impl::Impl(const DatasetPtr& dataset, Indices indices, LoaderOptions options)
    : options_(checked(options)),
      filler_(dataset, options_),
      ring_(dataset->spec(), options_.batch_size,
            loader_slots(options_, batch_bytes_of(options_, dataset->spec())), options_.device),
      worth_waking_for_(1 + (ring_.size() - least_slots(options_)) / 2),
      queue_(std::move(indices), options_) {
  start();
}

void Loader::Impl::start() {
  try {
    for (int i = 0; i < options_.workers; ++i) threads_.emplace_back([this, i] { work(i); });
  } catch (const std::system_error& error) {
    stop();
    throw DeviceError(fmt::format("cannot start loader worker {} of {}: {}; give fewer by --num-workers",
                                  threads_.size() + 1, options_.workers, error.code().message()));
  }
}

void Loader::Impl::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  workers_wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Loader::Impl::work(int worker) {
  Lock lock(mutex_);
  while (!stopping_ && !queue_.finished()) {
    const bool order_is_due = queue_.batches_left() <= static_cast<std::int64_t>(ring_.size());
    if (queue_.wants_order() && order_is_due) {
      make_order(lock);
    } else if (claim_and_fill(lock, worker)) {
      continue;
    } else if (queue_.wants_order()) {
      make_order(lock);  // early: there is nothing else to do
    } else {
      sleep_until_there_is_room(lock);
    }
  }
}

/// Claims the next batch, if its slot is free, and fills it with the lock released.
bool Loader::Impl::claim_and_fill(Lock& lock, int worker) {
  if (!queue_.has_batch() || !ring_.is_free_for(queue_.claimed())) return false;
  const BatchQueue::Claim claim = queue_.claim();
  lock.unlock();
  fill(claim, worker);
  lock.lock();
  return true;
}

void Loader::Impl::fill(const BatchQueue::Claim& claim, int worker) {
  BatchRing::Slot& slot = ring_.slot_of(claim.number);
  slot.sample.store(-1, std::memory_order_relaxed);
  slot.worker.store(worker, std::memory_order_relaxed);
  slot.begun.store(claim.number + 1, std::memory_order_release);
  try {
    if (claim.order->error) std::rethrow_exception(claim.order->error);
    filler_.fill(*claim.order, claim.batch, slot);
  } catch (...) {
    slot.error = std::current_exception();
  }
  ring_.make_ready(claim.number);
  if (caller_awaits_.load() == claim.number) {
    const std::lock_guard lock(mutex_);
    caller_wakes_.notify_one();
  }
}

void Loader::Impl::make_order(Lock& lock) {
  const std::int64_t epoch = queue_.begin_order();
  lock.unlock();
  auto order = queue_.make_order(epoch);
  lock.lock();
  queue_.finish_order(std::move(order));
  workers_wake_.notify_all();
  caller_wakes_.notify_one();
}

void Loader::Impl::sleep_until_there_is_room(Lock& lock) {
  if (queue_.has_batch()) {
    const std::uint64_t awaited = queue_.claimed() + worth_waking_for_ - 1;
    workers_await_.store(awaited);
    if (ring_.is_free_for(awaited)) return;
  }
  workers_wake_.wait(lock);
}

std::optional<Batch> Loader::Impl::next(Deadline deadline) {
  if (!ring_.is_ready(next_) && !bring_next(deadline)) return std::nullopt;
  const BatchRing::Slot& slot = ring_.slot_of(next_);
  if (slot.error) std::rethrow_exception(slot.error);
  next_.store(next_ + 1, std::memory_order_relaxed);
  return slot.batch;
}

/// Until batch `next_` is ready; false if there is none.
bool Loader::Impl::bring_next(Deadline deadline) {
  Lock lock(mutex_);
  while (!ring_.is_ready(next_)) {
    const bool begun = queue_.claimed() > next_;
    if (!begun && queue_.finished()) return false;
    if (!begun && claim_and_fill(lock, caller)) continue;
    if (!begun && queue_.has_batch())
      throw std::logic_error("Loader::next: all batches are held, none released");
    if (!begun && queue_.wants_order()) {
      make_order(lock);
    } else {
      sleep_until_next_is_ready(lock, deadline);
    }
  }
  return true;
}

void Loader::Impl::sleep_until_next_is_ready(Lock& lock, Deadline deadline) {
  caller_awaits_.store(next_);
  if (!ring_.is_ready(next_) && caller_wakes_.wait_until(lock, deadline.when()) == std::cv_status::timeout &&
      !ring_.is_ready(next_)) {
    caller_awaits_.store(none);
    throw DeviceError(
        fmt::format("the loader did not deliver {} in time: is its disk stuck?", describe_next()));
  }
  caller_awaits_.store(none);
}

std::string Loader::Impl::describe_next() const {
  const std::uint64_t number = next_;
  const BatchRing::Slot& slot = ring_.slot_of(number);
  const std::string batch =
      fmt::format("batch {}{}{}", number, options_.source.empty() ? "" : " of ", options_.source);
  if (slot.begun.load(std::memory_order_acquire) != number + 1) return batch;
  const int worker = slot.worker.load(std::memory_order_relaxed);
  return fmt::format("{}, sample {}{}", batch, slot.sample.load(std::memory_order_relaxed),
                     worker == caller ? std::string() : fmt::format(" (worker {})", worker));
}

void Loader::Impl::release(const Batch& batch) {
  if (released_ == next_ || ring_.slot_of(released_).batch.slot != batch.slot) {
    throw std::logic_error("Loader::release: batches go back in the order in which they came");
  }
  const std::uint64_t freed_for = ring_.make_free(released_++);
  if (workers_await_.load() == freed_for) {
    const std::lock_guard lock(mutex_);
    workers_await_.store(none);
    workers_wake_.notify_all();
  }
}

Loader::Loader(DatasetPtr dataset, Indices indices, LoaderOptions options)
    : impl_(std::make_unique<Impl>(dataset, std::move(indices), options)) {}

Loader::~Loader() = default;

std::optional<Batch> Loader::next(Deadline deadline) {
  return impl_->next(deadline);
}

std::string Loader::describe_next() const {
  return impl_->describe_next();
}

void Loader::release(const Batch& batch) {
  impl_->release(batch);
}

}  // namespace lockstep::data
