#pragma once

#include "kernels/cuda/elements.h"
#include "kernels/cuda/portability.h"
#include "kernels/pool2d.h"

/// How the threads of a pool find their pixels and windows.
namespace lockstep::kernels {

/// Strides of a tensor, in elements.
template <class Index>
struct Strides {
  Index image, group, row, pixel;

  explicit Strides(const Planes& p)
      : image(static_cast<Index>(p.image)),
        group(static_cast<Index>(p.group)),
        row(static_cast<Index>(p.row)),
        pixel(static_cast<Index>(p.pixel)) {}
};

/// One pool. `Index` is 32 bits wide where that is enough: a GPU divides long numbers slowly.
template <class Index>
struct Pool {
  Strides<Index> x, y;
  Index lanes, groups, height, width, out_height, out_width;
  Index kernel_h, kernel_w, stride_h, stride_w, padding_h, padding_w;
};

/// A pixel in the channels from `lane` on.
template <class Index>
struct Spot {
  Index image, group, row, column, lane;

  __device__ Index in(const Strides<Index>& s) const {
    return image * s.image + group * s.group + row * s.row + column * s.pixel + lane;
  }
};

/// The spot of an item, in the order of memory: neighbouring threads read neighbouring elements.
template <int lanes, class Index>
__device__ Spot<Index> spot_of(Index item, const Pool<Index>& p, Index height, Index width) {
  const Index steps = p.lanes / lanes;
  const Index lane = item % steps * lanes;
  item /= steps;
  const Index column = item % width;
  item /= width;
  const Index row = item % height;
  item /= height;
  return {item / p.groups, item % p.groups, row, column, lane};
}

/// The indices from `begin` to before `end`.
template <class Index>
struct Range {
  Index begin, end;
};

/// The part of window `at` that lies inside the input.
template <class Index>
__device__ Range<Index> window(Index at, Index kernel, Index stride, Index padding, Index extent) {
  const Index begin = at * stride - padding;
  return {begin < 0 ? 0 : begin, begin + kernel < extent ? begin + kernel : extent};
}

/// The windows that hold index `at` of the input.
template <class Index>
__device__ Range<Index> windows_over(Index at, Index kernel, Index stride, Index padding, Index windows) {
  const Index last = (at + padding) / stride;
  return {at + padding < kernel ? 0 : (at + padding - kernel) / stride + 1,
          last < windows ? last + 1 : windows};
}

/// PyTorch's window at `at` of `windows` over `extent` elements. With extent and windows exchanged: the
/// windows that hold an element.
template <class Index>
__device__ Range<Index> adaptive_window(Index at, Index windows, Index extent) {
  return {at * extent / windows, ((at + 1) * extent + windows - 1) / windows};
}

/// PyTorch's rule: greater wins, the first of equals stays, a NaN always wins.
__device__ inline bool replaces(float value, float best) {
  return value > best || value != value;
}

/// Calls `visit(row, column)` for each pixel of the window at (row, column) of the output.
template <class Index, class Visit>
__device__ void for_each_pixel(const Pool<Index>& p, Index row, Index column, Visit visit) {
  const Range<Index> rows = window(row, p.kernel_h, p.stride_h, p.padding_h, p.height);
  const Range<Index> columns = window(column, p.kernel_w, p.stride_w, p.padding_w, p.width);
  for (Index r = rows.begin; r < rows.end; ++r) {
    for (Index c = columns.begin; c < columns.end; ++c) visit(r, c);
  }
}

/// Calls `visit(row, column)` for each window that holds the pixel at (row, column) of the input.
template <class Index, class Visit>
__device__ void for_each_window(const Pool<Index>& p, Index row, Index column, Visit visit) {
  const Range<Index> rows = windows_over(row, p.kernel_h, p.stride_h, p.padding_h, p.out_height);
  const Range<Index> columns = windows_over(column, p.kernel_w, p.stride_w, p.padding_w, p.out_width);
  for (Index r = rows.begin; r < rows.end; ++r) {
    for (Index c = columns.begin; c < columns.end; ++c) visit(r, c);
  }
}

}  // namespace lockstep::kernels
