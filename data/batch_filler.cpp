#include "data/batch_filler.h"

#include <algorithm>
#include <utility>

namespace lockstep::data {

BatchFiller::BatchFiller(DatasetPtr dataset, const LoaderOptions& options)
    : dataset_(std::move(dataset)),
      batch_size_(options.batch_size),
      batches_per_step_(options.batches_per_step) {}

void BatchFiller::fill(const EpochOrder& order, std::int64_t batch, BatchRing::Slot& slot) const {
  const SampleSpec& spec = dataset_->spec();
  const std::int64_t first = batch * batch_size_;
  const std::int64_t rows = std::min(batch_size_, std::ssize(order.indices) - first);
  const std::size_t input_bytes = spec.input_bytes();
  const std::size_t target_bytes = spec.target_bytes();
  BatchInfo info{
      .epoch = order.epoch,
      .index = batch,
      .samples = rows,
      .padding = std::max<std::int64_t>(0, first + rows + order.padding - std::ssize(order.indices)),
      .last_of_epoch = batch + 1 == order.batches};
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
    const std::int64_t sample = order.indices[static_cast<std::size_t>(first) + row];
    slot.sample.store(sample, std::memory_order_relaxed);
    const std::span<std::byte> target = slot.target.subspan(row * target_bytes, target_bytes);
    dataset_->get(sample, order.epoch, slot.input.subspan(row * input_bytes, input_bytes), target);
    if (static_cast<std::int64_t>(row) < info.counted()) info.targets += valid_targets_in(spec, target);
  }
  if (batch % batches_per_step_ == 0) info.step_targets = info.targets + targets_behind(order, batch);
  slot.batch.info = info;
  slot.batch.input = slot.input.first(static_cast<std::size_t>(rows) * input_bytes);
  slot.batch.target = slot.target.first(static_cast<std::size_t>(rows) * target_bytes);
}

/// Of the step's batches that follow its first, `batch`.
std::int64_t BatchFiller::targets_behind(const EpochOrder& order, std::int64_t batch) const {
  const std::int64_t counted = std::ssize(order.indices) - order.padding;
  const std::int64_t end = std::min(counted, (batch + batches_per_step_) * batch_size_);
  std::int64_t targets = 0;
  for (std::int64_t at = (batch + 1) * batch_size_; at < end; ++at)
    targets += dataset_->valid_targets(order.indices[static_cast<std::size_t>(at)], order.epoch);
  return targets;
}

}  // namespace lockstep::data
