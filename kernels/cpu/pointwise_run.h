#pragma once

#include "kernels/pointwise.h"

namespace lockstep::kernels {

/// One run of a pointwise op on the CPU: n elements, side by side in the outputs.
struct PointwiseRun {
  const void* in[Pointwise::most_inputs];
  std::int64_t in_stride[Pointwise::most_inputs];  ///< in elements; 0: one number for all
  void* out[Pointwise::most_outputs];
  std::int64_t n;
  DType dtype;  ///< f32 or bf16, of all tensors; sums and functions are f32
};

}  // namespace lockstep::kernels
