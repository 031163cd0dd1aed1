#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "data/loader.h"

namespace lockstep::data {

/// The samples of one epoch in order, cut into batches.
struct EpochOrder {
  std::int64_t epoch = 0;
  std::vector<std::int64_t> indices;
  std::int64_t padding = 0;  ///< of them, at the end
  std::int64_t batches = 0;
  std::exception_ptr error;  ///< why there is no order; it is delivered as the epoch's only batch
};

/// Which batch comes next, and when the order of another epoch should be made: as soon as the one before is
/// begun. Not thread-safe; only `make_order` may run beside other calls.
class BatchQueue {
 public:
  struct Claim {
    std::uint64_t number = 0;  ///< over all epochs
    std::shared_ptr<const EpochOrder> order;
    std::int64_t batch = 0;  ///< in its epoch
  };

  BatchQueue(Loader::Indices indices, const LoaderOptions& options);

  bool has_batch() const { return current_ != nullptr && next_batch_ < current_->batches; }
  std::uint64_t claimed() const { return claimed_; }  ///< number of the batch that is claimed next
  Claim claim();

  /// Of the epoch that is being claimed.
  std::int64_t batches_left() const { return has_batch() ? current_->batches - next_batch_ : 0; }
  bool wants_order() const { return following_ == nullptr && !making_ && epochs_left(); }
  bool finished() const { return !has_batch() && following_ == nullptr && !making_ && !epochs_left(); }

  std::int64_t begin_order();  ///< the epoch whose order the caller now makes
  std::shared_ptr<const EpochOrder> make_order(std::int64_t epoch) const noexcept;
  void finish_order(std::shared_ptr<const EpochOrder> order);

 private:
  bool epochs_left() const { return !end_epoch_ || next_epoch_ < *end_epoch_; }
  void step_to_following_epoch();

  Loader::Indices indices_;
  std::int64_t batch_size_;
  std::int64_t next_epoch_;
  std::optional<std::int64_t> end_epoch_;

  std::shared_ptr<const EpochOrder> current_;
  std::shared_ptr<const EpochOrder> following_;
  bool making_ = false;
  std::int64_t next_batch_ = 0;
  std::int64_t skipped_batches_;  ///< of the epoch that is begun next
  std::uint64_t claimed_ = 0;
};

/// Memory for batches in flight. Batch number t lives in slot t % size; the slot's `state` is 2t while it is
/// free for batch t and 2t + 1 when batch t is ready in it, so filling and freeing need no lock.
/// Inputs, targets and states are aligned to 64 bytes.
class BatchRing {
 public:
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> state;
    Batch batch;
    std::exception_ptr error;  ///< why the batch could not be filled
    std::span<std::byte> input;
    std::span<std::byte> target;
    std::span<std::byte> states;  ///< empty where samples have none
    /// Who fills it and with what, for reports: batch number + 1, the sample, the worker (-1: the caller).
    std::atomic<std::uint64_t> begun{0};
    std::atomic<std::int64_t> sample{-1};
    std::atomic<int> worker{-1};
  };

  /// In the host memory of `device`, if there is one.
  BatchRing(const SampleSpec& spec, std::int64_t batch_size, std::size_t slots, kernels::Device* device);

  std::size_t size() const { return slots_.size(); }
  Slot& slot_of(std::uint64_t number) { return slots_[number % slots_.size()]; }
  const Slot& slot_of(std::uint64_t number) const { return slots_[number % slots_.size()]; }

  bool is_free_for(std::uint64_t number) { return slot_of(number).state.load() == 2 * number; }
  bool is_ready(std::uint64_t number) { return slot_of(number).state.load() == 2 * number + 1; }
  void make_ready(std::uint64_t number) { slot_of(number).state.store(2 * number + 1); }

  /// The number of the batch that the slot is now free for.
  std::uint64_t make_free(std::uint64_t number) {
    slot_of(number).state.store(2 * (number + size()));
    return number + size();
  }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };

  std::span<std::byte> allocate(std::size_t lines, kernels::Device* device);

  std::vector<Line> memory_;
  std::unique_ptr<kernels::Memory> device_memory_;
  std::vector<Slot> slots_;
};

}  // namespace lockstep::data
