#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "data/batch.h"
#include "data/loader.h"
#include "kernels/device.h"
#include "runtime/step/memory.h"

namespace lockstep::runtime {

/// A batch in a device slot.
struct DeviceBatch {
  data::BatchInfo info;
  std::size_t slot = 0;
};

/// Moves batches from the loader's ring into the device slots on a stream of its own, and measures the wait
/// for the loader.
class DevicePrefetcher {
 public:
  DevicePrefetcher(data::Loader& loader, kernels::Device& device, ReplicaMemory& memory, Seconds timeout);
  ~DevicePrefetcher();
  DevicePrefetcher(const DevicePrefetcher&) = delete;

  /// Waits until the loader has the next batch; false at the end.
  bool fetch();
  /// Of the fetched batch.
  std::int64_t samples() const { return fetched_->info.samples; }
  /// Starts to copy the fetched batch into `slot`, behind `last_use` of that slot; what `stream` gets from
  /// now on comes after the copy.
  DeviceBatch copy(std::size_t slot, kernels::Event& last_use, kernels::Stream& stream);

  /// Nanoseconds that the last `fetch` waited for the loader.
  std::int64_t waited_ns() const { return waited_ns_; }

 private:
  void release_copied();

  data::Loader& loader_;
  kernels::Device& device_;
  ReplicaMemory& memory_;
  std::unique_ptr<kernels::Stream> stream_;
  std::unique_ptr<kernels::Event> copied_;
  Seconds timeout_;
  std::optional<data::Batch> fetched_;
  std::optional<data::Batch> copying_;
  std::int64_t waited_ns_ = 0;
};

}  // namespace lockstep::runtime
