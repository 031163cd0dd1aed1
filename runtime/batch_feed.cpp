#include "runtime/batch_feed.h"

namespace lockstep::runtime {

std::optional<DeviceBatch> BatchFeed::next(std::size_t slot) {
  const auto start = Clock::now();
  const std::optional<data::Batch> batch = loader_.next(Deadline::in(timeout_));
  waited_ns_ = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
  if (!batch) return std::nullopt;
  device_.copy_to_device(memory_.input(slot), batch->input.data(), batch->input.size(), *stream_);
  device_.copy_to_device(memory_.target(slot), batch->target.data(), batch->target.size(), *stream_);
  stream_->synchronize();
  loader_.release(*batch);
  return DeviceBatch{.slot = slot,
                     .samples = batch->samples,
                     .epoch = batch->epoch,
                     .index = batch->index,
                     .last_of_epoch = batch->last_of_epoch};
}

}  // namespace lockstep::runtime
