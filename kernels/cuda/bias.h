#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/layout.h"

namespace lockstep::kernels {

/// In place on y (N, C, ...), f32, bf16 or f16: y += b of its channel, then y = max(y, 0), a NaN stays. For
/// convolutions whose library has no plan with both, and wherever its ReLU loses a NaN.
class BiasRelu {
 public:
  /// y is row-major or channels-last.
  BiasRelu(const TensorDesc& y, bool relu);
  /// b, of the type of y, may be null: no bias.
  void launch(const void* b, void* y, cudaStream_t stream) const;

 private:
  DType dtype_;
  std::int64_t elements_;
  std::int64_t channels_;
  std::int64_t channel_stride_;
  bool relu_;
};

/// db = dy (N, O) or (N, C, H, W), f32, bf16 or f16, summed in f32 over all but its second dimension. The
/// order of the sum depends on the shape and layout alone: the same bits on every GPU. Coalesced if that
/// dimension is the innermost, as in a row-major matrix and in channels-last pictures.
class BiasGradient {
 public:
  /// UsageError if dy is neither, or has a blocked layout.
  /// `gradient`: the type of db; f32, or as dy.
  BiasGradient(const TensorDesc& dy, DType gradient);

  std::size_t workspace_bytes() const;
  /// db: one number for each column; `adds`: to what is there. The workspace may be null if it has no bytes.
  void launch(const void* dy, void* db, void* workspace, cudaStream_t stream, bool adds = false) const;

  /// The rows over which to sum, in two levels of strides, and the columns.
  struct Rows {
    std::int64_t outer, inner;
    std::int64_t outer_stride, inner_stride;
    std::int64_t columns, column_stride;
  };

 private:
  DType dtype_;
  DType gradient_;
  Rows rows_;
  std::int64_t lanes_;      ///< columns of a thread
  unsigned width_, depth_;  ///< threads of a block: side by side, and to a column
  std::int64_t chunk_;      ///< rows that one block sums
  std::int64_t chunks_;     ///< several: their sums are kept in the workspace
};

}  // namespace lockstep::kernels
