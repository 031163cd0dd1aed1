#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/layout.h"

namespace lockstep::kernels {

/// db = dy (N, O) or (N, C, H, W), f32, summed over all but its second dimension. The order of the sum
/// depends on the shape and layout alone: the same bits on every GPU. Coalesced if that dimension is the
/// innermost, as in a plain matrix and in channels-last pictures.
class BiasGradient {
 public:
  /// UsageError if dy is neither, or lies in blocks.
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
  std::int64_t chunks_;  ///< their sums lie in the workspace if there are several
};

}  // namespace lockstep::kernels
