#include "comm/staged/staged_communicator.h"

#include <stdexcept>
#include <utility>

namespace lockstep::comm {

StagedCommunicator::StagedCommunicator(std::unique_ptr<Communicator> inner, kernels::Device& device)
    : DecoratedCommunicator(std::move(inner)), device_(device) {}

std::span<std::byte> StagedCommunicator::allocate_arena(std::size_t bytes) {
  if (world().size > 1) {
    on_host_ = inner().allocate_arena(bytes);
    pinned_ = device_.pin(on_host_);
  }
  arena_ = device_.allocate(bytes);
  return {static_cast<std::byte*>(arena_->data()), bytes};
}

ExchangeTiming StagedCommunicator::all_reduce(std::size_t offset, std::size_t count, DType dtype,
                                              ExchangeLabel label, kernels::Stream& stream) {
  if (world().size == 1) return inner().all_reduce(offset, count, dtype, label, stream);
  const std::size_t bytes = count * size_of(dtype);
  if (offset + bytes > on_host_.size()) {
    throw std::invalid_argument("all_reduce: the range is not in the arena");
  }
  std::byte* const on_device = static_cast<std::byte*>(arena_->data()) + offset;
  std::byte* const on_host = on_host_.data() + offset;
  device_.copy_to_host(on_host, on_device, bytes, stream);
  // No peer touches our arena on the host until we have joined the sum, and by then the copy back of the last
  // sum, which is in the same stream, is done too.
  stream.synchronize();
  const ExchangeTiming timing = inner().all_reduce(offset, count, dtype, label, stream);
  device_.copy_to_device(on_device, on_host, bytes, stream);
  return timing;
}

}  // namespace lockstep::comm
