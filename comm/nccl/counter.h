#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "kernels/cuda/handles.h"

namespace lockstep::comm {

/// How often streams, and graphs that are replayed there, have come to a place. The host reads it while the
/// GPU works, also from threads that may not call CUDA.
class StreamCounter {
 public:
  /// On the current device.
  StreamCounter();

  /// What is enqueued before this on `stream` is done when the count grows.
  void count(cudaStream_t stream);
  std::uint32_t value() const;

  /// Holds the value as it is, and leaves the memory to the end of the process: a GPU that has failed may go
  /// on counting until then.
  void abandon() noexcept;

 private:
  struct Free {
    void operator()(std::uint32_t* word) const noexcept { cudaFree(word); }
  };
  struct FreePinned {
    void operator()(std::uint32_t* word) const noexcept { cudaFreeHost(word); }
  };

  std::unique_ptr<std::uint32_t, Free> count_owner_;
  std::unique_ptr<std::uint32_t, FreePinned> shown_owner_;
  std::uint32_t* count_ = nullptr;      ///< the GPU's own: reading the host's would cost it a trip
  std::uint32_t* shown_ = nullptr;      ///< pinned
  std::atomic<std::int64_t> held_{-1};  ///< from abandon on
};

}  // namespace lockstep::comm
