#include "data/batch_ring.h"

namespace lockstep::data {

BatchRing::BatchRing(const SampleSpec& spec, std::int64_t batch_size, std::size_t slots,
                     kernels::Device* device)
    : slots_(slots) {
  const auto rows = static_cast<std::size_t>(batch_size);
  const auto lines = [](std::size_t bytes) { return (bytes + sizeof(Line) - 1) / sizeof(Line); };
  const std::size_t input_bytes = bytes_of_all("inputs of a batch", rows, spec.input_bytes());
  const std::size_t target_bytes = bytes_of_all("targets of a batch", rows, spec.target_bytes());
  const std::size_t slot_lines = lines(input_bytes) + lines(target_bytes);
  bytes_of_all("batches loaded ahead", slots, slot_lines * sizeof(Line));
  const std::span<std::byte> bytes = allocate(slots * slot_lines, device);
  for (std::size_t i = 0; i < slots; ++i) {
    Slot& slot = slots_[i];
    const std::span<std::byte> mine = bytes.subspan(i * slot_lines * sizeof(Line), slot_lines * sizeof(Line));
    slot.turn.store(2 * i);
    slot.batch.slot = i;
    slot.input = mine.first(input_bytes);
    slot.target = mine.subspan(lines(input_bytes) * sizeof(Line), target_bytes);
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
