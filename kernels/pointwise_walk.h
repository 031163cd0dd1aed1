#pragma once

#include <array>

#include "kernels/pointwise.h"

namespace lockstep::kernels {

/// How a pointwise kernel walks memory: nested loops, the greatest strides outside, joined where they are one
/// run. Strides are in elements; that of an operand is 0 along what it is broadcast over.
struct PointwiseWalk {
  static constexpr std::size_t most_axes = 6;

  std::size_t axes = 0;
  std::array<std::int64_t, most_axes> extents{};
  std::array<std::int64_t, most_axes> out_strides{};
  std::array<std::array<std::int64_t, most_axes>, Pointwise::most_inputs> in_strides{};

  std::int64_t elements() const;
  bool is_flat() const;  ///< one run, nothing is broadcast
};

/// Without broadcasting all tensors lie alike, in any layout, and padding is walked over too. With it those
/// of the full shape have strides and no blocks, the others are row-major. UsageError otherwise.
PointwiseWalk pointwise_walk(const KernelIo& io);

/// Full tensors take the layout of the first of them, if the kernel can walk it and padding stays zero.
void choose_pointwise_layouts(const Pointwise& op, KernelIo& io);

}  // namespace lockstep::kernels
