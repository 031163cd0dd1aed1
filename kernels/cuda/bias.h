#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/layout.h"

namespace lockstep::kernels {

/// In place on y (N, C, H, W), f32: y += b of its channel, then y = max(y, 0). For convolutions whose library
/// has no plan with both.
class BiasRelu {
 public:
  /// y is row-major or channels-last.
  BiasRelu(const TensorDesc& y, bool relu);
  /// b may be null: no bias.
  void launch(const float* b, float* y, cudaStream_t stream) const;

 private:
  std::int64_t elements_;
  std::int64_t channels_;
  std::int64_t channel_stride_;
  bool relu_;
};

/// db = dy (N, O) or (N, C, H, W), f32, summed over all but its second dimension. The order of the sum
/// depends on the shape and layout alone: the same bits on every GPU. Coalesced if that dimension is the
/// innermost, as in a row-major matrix and in channels-last pictures.
class BiasGradient {
 public:
  /// UsageError if dy is neither, or has a blocked layout.
  explicit BiasGradient(const TensorDesc& dy);

  std::size_t workspace_bytes() const;
  /// db: one float for each column. The workspace may be null if it has no bytes.
  void launch(const float* dy, float* db, void* workspace, cudaStream_t stream) const;

  /// The rows over which to sum, in two levels of strides, and the columns.
  struct Rows {
    std::int64_t outer, inner;
    std::int64_t outer_stride, inner_stride;
    std::int64_t columns, column_stride;
  };

 private:
  Rows rows_;
  std::int64_t chunk_;   ///< rows that one block sums
  std::int64_t chunks_;  ///< several: their sums are kept in the workspace
};

}  // namespace lockstep::kernels
