#include "kernels/fill.h"

#include "kernels/cuda/portability.h"

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/grid.h"

namespace lockstep::kernels {
namespace {

template <class Element>
__global__ void fill(float value, std::int64_t n, Element* y) {
  for (std::int64_t i = first_item(); i < n; i += item_stride()) y[i] = narrow<Element>(value);
}

}  // namespace

KernelPtr prepare(Cuda, const Fill& op, const KernelIo& io) {
  const TensorDesc& y = io.outputs[Fill::y];
  const std::int64_t n = y.shape.elements();
  return with_element(y.dtype, [&]<class Element>(Element*) {
    return cuda_kernel(io, [n, value = static_cast<float>(op.value), s = spread(n)](const Addresses& a,
                                                                                    cudaStream_t stream) {
      launch(fill<Element>, s.blocks, s.threads, 0, stream, value, n, a.out<Element>(Fill::y));
    });
  });
}

}  // namespace lockstep::kernels
