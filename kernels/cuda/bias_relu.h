#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/layout.h"

namespace lockstep::kernels {

/// In place on y (N, C, H, W), f32: y += b of its channel, then y = max(y, 0). For convolutions whose library
/// has no plan with both.
class BiasRelu {
 public:
  /// y plain or channels-last.
  BiasRelu(const TensorDesc& y, bool relu);
  /// b may be null: no bias.
  void launch(const float* b, float* y, cudaStream_t stream) const;

 private:
  std::int64_t elements_;
  std::int64_t channels_;
  std::int64_t channel_stride_;
  bool relu_;
};

}  // namespace lockstep::kernels
