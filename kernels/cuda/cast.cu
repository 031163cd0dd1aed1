#include "kernels/cast.h"

#include "kernels/cuda/portability.h"

#include <algorithm>
#include <limits>

#include "kernels/cuda/cast.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/grid.h"
#include "kernels/padded_rows.h"

namespace lockstep::kernels {
namespace {

/// Four elements a thread; tensors begin on a line of 64 bytes.
template <class From, class To>
__global__ void cast(std::int64_t n, const From* x, To* y) {
  const std::int64_t whole = n / 4;
  for (std::int64_t i = first_item(); i < whole; i += item_stride()) {
    const Four<From> from = aligned_cast<const Four<From>>(x)[i];
    Four<To> to;
    for (int k = 0; k < 4; ++k) to.at[k] = narrow<To>(widen(from.at[k]));
    aligned_cast<Four<To>>(y)[i] = to;
  }
  for (std::int64_t i = 4 * whole + first_item(); i < n; i += item_stride()) {
    y[i] = narrow<To>(widen(x[i]));
  }
}

/// A matrix to rows of another stride. Where y has room it becomes zero.
template <class From, class To, class Index>
__global__ void cast_rows(PaddedRows from, PaddedRows to, const From* x, To* y) {
  const std::int64_t items = to.all_rows * to.stride;
  for (std::int64_t item = first_item(); item < items; item += item_stride()) {
    const Index row = static_cast<Index>(item) / static_cast<Index>(to.stride);
    const Index column = static_cast<Index>(item) - row * static_cast<Index>(to.stride);
    const bool inside = row < static_cast<Index>(to.rows) && column < static_cast<Index>(to.columns);
    y[item] = inside ? narrow<To>(widen(x[row * static_cast<Index>(from.stride) + column])) : narrow<To>(0);
  }
}

template <class From, class To>
KernelPtr cast_rows_kernel(const KernelIo& io, const PaddedRows& from, const PaddedRows& to) {
  const auto launch_with = [&]<class Index>(Index) {
    return cuda_kernel(io, [=, s = spread(to.all_rows * to.stride)](const Addresses& a, cudaStream_t stream) {
      launch(cast_rows<From, To, Index>, s.blocks, s.threads, 0, stream, from, to, a.in<From>(Cast::x),
             a.out<To>(Cast::y));
    });
  };
  // A GPU divides long numbers slowly.
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  const bool short_index = std::max(from.all_rows * from.stride, to.all_rows * to.stride) <= most;
  return short_index ? launch_with(std::uint32_t{}) : launch_with(std::uint64_t{});
}

}  // namespace

void launch_cast(std::int64_t n, DType from, const void* x, DType to, void* y, cudaStream_t stream) {
  const Spread s = spread(parts_of(n, 4));
  with_element(from, [&]<class From>(From*) {
    with_element(to, [&]<class To>(To*) {
      launch(cast<From, To>, s.blocks, s.threads, 0, stream, n, static_cast<const From*>(x),
             static_cast<To*>(y));
    });
  });
}

/// A GPU's layouts have no blocks to gain from: both tensors have one, but for the room behind rows and
/// columns.
void choose_layouts(Cuda, const Cast&, KernelIo& io) {
  choose_cast_layouts(io);
  TensorDesc& x = io.inputs[Cast::x];
  if (!padded_rows(x) || !padded_rows(io.outputs[Cast::y])) x.layout = io.outputs[Cast::y].layout;
}

KernelPtr prepare(Cuda, const Cast&, const KernelIo& io) {
  const TensorDesc& x = io.inputs[Cast::x];
  const TensorDesc& y = io.outputs[Cast::y];
  if (x.layout_or_row_major() != y.layout_or_row_major()) {
    const auto from = padded_rows(x);
    const auto to = padded_rows(y);
    if (!from || !to) require_same_layout(x, y);
    return with_element(x.dtype, [&]<class From>(From*) {
      return with_element(y.dtype, [&]<class To>(To*) { return cast_rows_kernel<From, To>(io, *from, *to); });
    });
  }
  const std::int64_t n = x.layout_or_row_major().span();
  return cuda_kernel(io, [n, from = x.dtype, to = y.dtype](const Addresses& a, cudaStream_t stream) {
    launch_cast(n, from, a.in<void>(Cast::x), to, a.out<void>(Cast::y), stream);
  });
}

}  // namespace lockstep::kernels
