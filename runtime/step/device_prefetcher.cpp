#include "runtime/step/device_prefetcher.h"

#include <exception>

namespace lockstep::runtime {

DevicePrefetcher::DevicePrefetcher(data::Loader& loader, kernels::Device& device, ReplicaMemory& memory,
                                   Seconds timeout)
    : loader_(loader),
      device_(device),
      memory_(memory),
      stream_(device.make_stream()),
      copied_(device.make_event()),
      timeout_(timeout) {}

/// A run that stops has begun to copy a batch that no step takes.
DevicePrefetcher::~DevicePrefetcher() {
  try {
    release_copied();
  } catch (const std::exception&) {
    // The device has failed, and the run ends with its first error.
  }
}

bool DevicePrefetcher::fetch() {
  release_copied();
  const auto start = Clock::now();
  fetched_ = loader_.next(Deadline::in(timeout_));
  waited_ns_ = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
  return fetched_.has_value();
}

DeviceBatch DevicePrefetcher::copy(std::size_t slot, kernels::Event& last_use, kernels::Stream& stream) {
  const data::Batch& batch = *fetched_;
  stream_->wait(last_use);
  device_.copy_to_device(memory_.input(slot), batch.input.data(), batch.input.size(), *stream_);
  device_.copy_to_device(memory_.target(slot), batch.target.data(), batch.target.size(), *stream_);
  stream_->record(*copied_);
  stream.wait(*copied_);
  copying_ = batch;
  return {.info = batch.info, .slot = slot};
}

/// A copy waits for no step that has not been waited for: it is done, or soon will be.
void DevicePrefetcher::release_copied() {
  if (!copying_) return;
  copied_->synchronize();
  loader_.release(*copying_);
  copying_.reset();
}

}  // namespace lockstep::runtime
