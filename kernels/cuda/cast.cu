#include "kernels/cast.h"

#include "kernels/cuda/portability.h"

#include "kernels/cuda/cast.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/grid.h"

namespace lockstep::kernels {
namespace {

/// Four elements a thread; tensors begin on a line of 64 bytes.
template <class From, class To>
__global__ void cast(std::int64_t n, const From* x, To* y) {
  const std::int64_t whole = n / 4;
  for (std::int64_t i = first_item(); i < whole; i += item_stride()) {
    const Four<From> from = reinterpret_cast<const Four<From>*>(x)[i];
    Four<To> to;
    for (int k = 0; k < 4; ++k) to.at[k] = narrow<To>(widen(from.at[k]));
    reinterpret_cast<Four<To>*>(y)[i] = to;
  }
  for (std::int64_t i = 4 * whole + first_item(); i < n; i += item_stride()) {
    y[i] = narrow<To>(widen(x[i]));
  }
}

}  // namespace

void launch_cast(std::int64_t n, DType from, const void* x, DType to, void* y, cudaStream_t stream) {
  const Spread s = spread((n + 3) / 4);
  with_element(from, [&]<class From>(From*) {
    with_element(to, [&]<class To>(To*) {
      launch(cast<From, To>, s.blocks, s.threads, 0, stream, n, static_cast<const From*>(x),
             static_cast<To*>(y));
    });
  });
}

/// A GPU's layouts have no blocks to gain from: both tensors have one.
void choose_layouts(Cuda, const Cast&, KernelIo& io) {
  choose_cast_layouts(io);
  io.inputs[Cast::x].layout = io.outputs[Cast::y].layout;
}

KernelPtr prepare(Cuda, const Cast&, const KernelIo& io) {
  const TensorDesc& x = io.inputs[Cast::x];
  const TensorDesc& y = io.outputs[Cast::y];
  require_same_layout(x, y);
  const std::int64_t n = x.layout_or_row_major().span();
  return cuda_kernel(io, [n, from = x.dtype, to = y.dtype](const Addresses& a, cudaStream_t stream) {
    launch_cast(n, from, a.in<void>(Cast::x), to, a.out<void>(Cast::y), stream);
  });
}

}  // namespace lockstep::kernels
