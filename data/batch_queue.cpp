#include "data/batch_queue.h"

#include <utility>

#include <fmt/format.h>

#include "kernels/base/error.h"

namespace lockstep::data {

BatchQueue::BatchQueue(Loader::Indices indices, const LoaderOptions& options)
    : indices_(std::move(indices)),
      batch_size_(options.batch_size),
      drop_last_batch_(options.drop_last_batch),
      next_epoch_(options.first_epoch),
      skipped_batches_(options.first_batch) {
  if (options.epochs) end_epoch_ = options.first_epoch + *options.epochs;
}

BatchQueue::Claim BatchQueue::claim() {
  Claim claim{claimed_++, current_, next_batch_++};
  step_to_following_epoch();
  return claim;
}

std::int64_t BatchQueue::begin_order() {
  making_ = true;
  return next_epoch_++;
}

std::shared_ptr<const EpochOrder> BatchQueue::make_order(std::int64_t epoch) const noexcept {
  auto order = std::make_shared<EpochOrder>();
  order->epoch = epoch;
  try {
    order->indices = indices_(epoch);
    const std::int64_t samples = std::ssize(order->indices);
    order->batches = (samples + (drop_last_batch_ ? 0 : batch_size_ - 1)) / batch_size_;
    if (order->batches == 0 && !end_epoch_) {
      throw UsageError(
          fmt::format("{} samples make no batch of {}: give a smaller --batch-size", samples, batch_size_));
    }
  } catch (...) {
    order->error = std::current_exception();
    order->batches = 1;
  }
  return order;
}

void BatchQueue::finish_order(std::shared_ptr<const EpochOrder> order) {
  making_ = false;
  if (order->error) end_epoch_ = next_epoch_;
  following_ = std::move(order);
  step_to_following_epoch();
}

void BatchQueue::step_to_following_epoch() {
  if (has_batch() || following_ == nullptr) return;
  current_ = std::exchange(following_, nullptr);
  next_batch_ = current_->error ? 0 : std::exchange(skipped_batches_, 0);
}

}  // namespace lockstep::data
