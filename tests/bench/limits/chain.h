#pragma once

#include "kernels/device.h"

namespace lockstep::bench {

/// A chain of pointwise ops over channels, rows and a residual, on tensors far larger than the caches.
struct ChainTimes {
  double joined_ms;  ///< as one kernel
  double apart_ms;   ///< as one for each op
  double gigabytes;  ///< that it must read and write at least
};

ChainTimes measure_chain(kernels::Device& device);

}  // namespace lockstep::bench
