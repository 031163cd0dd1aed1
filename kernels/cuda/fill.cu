#include "kernels/fill.h"

#include "kernels/cuda/portability.h"

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/grid.h"

namespace lockstep::kernels {
namespace {

__global__ void fill(float value, std::int64_t n, float* y) {
  for (std::int64_t i = first_item(); i < n; i += item_stride()) y[i] = value;
}

}  // namespace

KernelPtr prepare(Cuda, const Fill& op, const KernelIo& io) {
  const std::int64_t n = io.outputs[Fill::y].shape.elements();
  return cuda_kernel(
      io, [n, value = static_cast<float>(op.value), s = spread(n)](const Addresses& a, cudaStream_t stream) {
        launch(fill, s.blocks, s.threads, 0, stream, value, n, a.out(Fill::y));
      });
}

}  // namespace lockstep::kernels
