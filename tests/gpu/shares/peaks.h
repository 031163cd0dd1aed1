#pragma once

#include "kernels/device.h"
#include "kernels/matmul.h"

namespace lockstep::shares {

/// What the device was seen to do at best, in this run.
struct Peaks {
  double flops = 0;  ///< of a large square matrix product, a second
  double bytes = 0;  ///< read and written by a large copy (a relu), a second
};

Peaks measure_peaks(kernels::Device& device, kernels::MatmulPrecision precision);

}  // namespace lockstep::shares
