#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/conv2d.h"
#include "kernels/kernel.h"

namespace lockstep::kernels {

/// The pixels of x that a filter of one pixel meets: with a stride not all. Pictures are bf16, channels-last.
struct StridedPixels {
  std::array<std::int64_t, 2> stride;
  Shape x, y;

  bool are_all() const { return stride == std::array<std::int64_t, 2>{1, 1}; }
  TensorDesc desc() const;  ///< of them alone, channels-last: x's channels, y's extents
};

/// `kernel` takes as operand `index` the pixels alone, of x there.
KernelPtr with_gathered(const StridedPixels& pixels, std::size_t index, KernelPtr kernel);
/// `kernel` gives as operand `index` the pixels alone, for x there, which is zero elsewhere.
KernelPtr with_scattered(const StridedPixels& pixels, std::size_t index, KernelPtr kernel);

}  // namespace lockstep::kernels
