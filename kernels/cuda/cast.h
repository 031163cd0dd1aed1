#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/base/dtype.h"

namespace lockstep::kernels {

/// y = x, n elements side by side, each f32, bf16 or f16; both begin on a line of 64 bytes.
void launch_cast(std::int64_t n, DType from, const void* x, DType to, void* y, cudaStream_t stream);

}  // namespace lockstep::kernels
