#pragma once

#include <optional>

#include "data/loader.h"
#include "kernels/device.h"
#include "runtime/memory.h"

namespace lockstep::runtime {

/// A batch in a device slot.
struct DeviceBatch {
  std::size_t slot = 0;
  std::int64_t samples = 0;
  std::int64_t epoch = 0;
  std::int64_t index = 0;  ///< in its epoch
  bool last_of_epoch = false;
};

/// Moves batches from the loader's ring into the device slots, and measures the wait for them.
class BatchFeed {
 public:
  BatchFeed(data::Loader& loader, kernels::Device& device, ReplicaMemory& memory, Seconds timeout)
      : loader_(loader), device_(device), memory_(memory), stream_(device.make_stream()), timeout_(timeout) {}

  /// The next batch, in `slot`; none at the end.
  std::optional<DeviceBatch> next(std::size_t slot);

  /// Nanoseconds that the last `next` waited for the loader.
  std::int64_t waited_ns() const { return waited_ns_; }

 private:
  data::Loader& loader_;
  kernels::Device& device_;
  ReplicaMemory& memory_;
  std::unique_ptr<kernels::Stream> stream_;
  Seconds timeout_;
  std::int64_t waited_ns_ = 0;
};

}  // namespace lockstep::runtime
