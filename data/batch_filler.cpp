#include "data/batch_filler.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "data/lengths.h"

namespace lockstep::data {

BatchFiller::BatchFiller(DatasetPtr dataset, const LoaderOptions& options)
    : dataset_(std::move(dataset)),
      batch_size_(options.batch_size),
      batches_per_step_(options.batches_per_step),
      lengths_(options.lengths) {}

void BatchFiller::fill(const EpochOrder& order, std::int64_t batch, BatchRing::Slot& slot) const {
  const SampleSpec& spec = dataset_->spec();
  const std::int64_t first = batch * batch_size_;
  const std::int64_t rows = std::min(batch_size_, std::ssize(order.indices) - first);
  const std::size_t input_bytes = spec.input_bytes();
  const std::size_t target_bytes = spec.target_bytes();
  const std::size_t states_bytes = spec.states_bytes();
  const std::int64_t length = length_of(order, batch);
  const SampleSpec cut = cut_to(spec, length);
  const std::size_t input_step = cut.input_bytes();
  const std::size_t target_step = cut.target_bytes();
  BatchInfo info{
      .epoch = order.epoch,
      .index = batch,
      .samples = rows,
      .padding = std::max<std::int64_t>(0, first + rows + order.padding - std::ssize(order.indices)),
      .length = length,
      .last_of_epoch = batch + 1 == order.batches};
  // A row that is cut is written whole, and the next one over its end.
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
    const std::int64_t sample = order.indices[static_cast<std::size_t>(first) + row];
    slot.sample.store(sample, std::memory_order_relaxed);
    const std::span<std::byte> input = slot.input.subspan(row * input_step, input_bytes);
    const std::span<std::byte> target = slot.target.subspan(row * target_step, target_bytes);
    dataset_->get(sample, order.epoch, input, target);
    if (states_bytes > 0) dataset_->get_states(sample, slot.states.subspan(row * states_bytes, states_bytes));
    if (static_cast<std::int64_t>(row) < info.counted())
      info.targets += valid_targets_in(spec, input, target);
  }
  if (batch % batches_per_step_ == 0) info.step_targets = info.targets + targets_behind(order, batch);
  slot.batch.info = info;
  // Evaluation runs whole batches: what stands in the other rows must be tokens too, or name what there is.
  const std::int64_t given = spec.vocab_size > 0 || spec.names_kept() ? batch_size_ : rows;
  slot.batch.input = slot.input.first(static_cast<std::size_t>(given) * input_step);
  slot.batch.target = slot.target.first(static_cast<std::size_t>(given) * target_step);
  slot.batch.states = slot.states.first(static_cast<std::size_t>(given) * states_bytes);
  for (auto row = static_cast<std::size_t>(rows); row < static_cast<std::size_t>(given); ++row) {
    std::memcpy(slot.input.data() + row * input_step, slot.input.data(), input_step);
    std::memcpy(slot.target.data() + row * target_step, slot.target.data(), target_step);
    if (states_bytes > 0)
      std::memcpy(slot.states.data() + row * states_bytes, slot.states.data(), states_bytes);
  }
}

/// Steps of one size have plans for all lengths, others for the greatest.
std::int64_t BatchFiller::length_of(const EpochOrder& order, std::int64_t batch) const {
  if (lengths_.empty()) return 0;
  const std::int64_t first_of_step = batch - batch % batches_per_step_;
  const bool is_full = (first_of_step + batches_per_step_) * batch_size_ <= std::ssize(order.indices);
  if (!is_full) return lengths_.back();
  std::int64_t longest = 0;
  for (std::int64_t at = batch * batch_size_; at < (batch + 1) * batch_size_; ++at)
    longest = std::max(longest, dataset_->length(order.indices[static_cast<std::size_t>(at)]));
  return *std::ranges::lower_bound(lengths_.begin(), lengths_.end() - 1, longest);
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
