#pragma once

#include <vector>

#include "kernels/kernel.h"
#include "kernels/layout.h"

namespace lockstep::kernels {

/// A loop over y, whose elements behind `inside` are padding.
struct StridedAxis {
  std::int64_t inside, extent, x_stride, y_stride;
};

/// A reorder between layouts without blocks, or nothing where numbers of 31 bits are too small.
KernelPtr strided_reorder_kernel(const KernelIo& io);

/// The same by tiles of shared memory, or nothing where y's innermost axis or x's is too short for them.
/// `axes` begin with y's innermost.
KernelPtr tiled_reorder_kernel(const KernelIo& io, const std::vector<StridedAxis>& axes);

/// `make(element)` with an unsigned number of so many bytes.
template <class Make>
auto with_bits(std::size_t bytes, Make make) {
  if (bytes == 1) return make(std::uint8_t{});
  if (bytes == 2) return make(std::uint16_t{});
  if (bytes == 4) return make(std::uint32_t{});
  return make(std::uint64_t{});
}

}  // namespace lockstep::kernels
