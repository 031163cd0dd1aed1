#pragma once

#include "kernels/device.h"
#include "kernels/matmul.h"

namespace lockstep::shares {

/// What the device was seen to do at best, in this run.
struct Peaks {
  double flops = 0;  ///< of a large square matrix product, a second
  double bytes = 0;  ///< read and written by a large copy (a relu), a second
};

/// `dtype`: of the product; the copy is of f32.
Peaks measure_peaks(kernels::Device& device, DType dtype, kernels::MatmulPrecision precision);

}  // namespace lockstep::shares
