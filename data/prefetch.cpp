#include "data/prefetch.h"

#include <stdexcept>
#include <utility>

#include "kernels/base/division.h"

namespace lockstep::data {

BatchQueue::BatchQueue(Loader::Indices indices, const LoaderOptions& options)
    : indices_(std::move(indices)),
      batch_size_(options.batch_size),
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
    EpochSamples drawn = indices_(epoch);
    order->indices = std::move(drawn.indices);
    order->padding = drawn.padding;
    const std::int64_t samples = std::ssize(order->indices);
    order->batches = parts_of(samples, batch_size_);
    if (order->batches == 0 && !end_epoch_) throw std::logic_error("an endless loader without samples");
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

BatchRing::BatchRing(const SampleSpec& spec, std::int64_t batch_size, std::size_t slots,
                     kernels::Device* device)
    : slots_(slots) {
  const auto rows = static_cast<std::size_t>(batch_size);
  const auto lines = [](std::size_t bytes) { return parts_of(bytes, sizeof(Line)); };
  const std::size_t input_bytes = bytes_of_all("inputs of a batch", rows, spec.input_bytes());
  const std::size_t target_bytes = bytes_of_all("targets of a batch", rows, spec.target_bytes());
  const std::size_t states_bytes = bytes_of_all("states of a batch", rows, spec.states_bytes());
  const std::size_t slot_lines = lines(input_bytes) + lines(target_bytes) + lines(states_bytes);
  bytes_of_all("batches loaded ahead", slots, slot_lines * sizeof(Line));
  const std::span<std::byte> bytes = allocate(slots * slot_lines, device);
  for (std::size_t i = 0; i < slots; ++i) {
    Slot& slot = slots_[i];
    const std::span<std::byte> mine = bytes.subspan(i * slot_lines * sizeof(Line), slot_lines * sizeof(Line));
    slot.state.store(2 * i);
    slot.batch.slot = i;
    slot.input = mine.first(input_bytes);
    slot.target = mine.subspan(lines(input_bytes) * sizeof(Line), target_bytes);
    slot.states = mine.last(lines(states_bytes) * sizeof(Line)).first(states_bytes);
  }
}

std::span<std::byte> BatchRing::allocate(std::size_t lines, kernels::Device* device) {
  if (device == nullptr) {
    memory_.resize(lines);
    return std::as_writable_bytes(std::span(memory_));
  }
  device_memory_ = device->allocate_host(lines * sizeof(Line));
  return {static_cast<std::byte*>(device_memory_->data()), device_memory_->bytes()};
}

}  // namespace lockstep::data
