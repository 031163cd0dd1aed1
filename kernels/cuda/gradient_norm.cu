#include "kernels/gradient_norm.h"

#include "kernels/cuda/portability.h"

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/grid.h"

namespace lockstep::kernels {
namespace {

constexpr int block = 256;

__device__ double square(float value) {
  return static_cast<double>(value) * static_cast<double>(value);
}

/// sums[chunk]: a block each.
__global__ void sum_squares(std::int64_t n, const float* gradients, double* sums) {
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * gradient_norm_chunk;
  const std::int64_t end = begin + gradient_norm_chunk < n ? begin + gradient_norm_chunk : n;
  const std::int64_t whole = begin + (end - begin) / 4 * 4;
  double squares = 0;
  for (std::int64_t i = begin + 4 * static_cast<std::int64_t>(threadIdx.x); i < whole; i += 4 * block) {
    const float4 g = *reinterpret_cast<const float4*>(gradients + i);
    squares += square(g.x) + square(g.y) + (square(g.z) + square(g.w));
  }
  for (std::int64_t i = whole + threadIdx.x; i < end; i += block) squares += square(gradients[i]);
  squares = sum<block>(squares);
  if (threadIdx.x == 0) sums[blockIdx.x] = squares;
}

__global__ void finish(double max_norm, std::int64_t chunks, const double* sums, StepState* state,
                       ControlBlock* control) {
  double squares = 0;
  for (std::int64_t chunk = threadIdx.x; chunk < chunks; chunk += block) squares += sums[chunk];
  squares = sum<block>(squares);
  if (threadIdx.x != 0) return;
  const double norm = sqrt(squares);
  control->gradient_norm = static_cast<float>(norm);
  if (isfinite(norm)) {
    const double scale = max_norm / (norm + 1e-6);
    state->gradient_scale = static_cast<float>(scale < 1 ? scale : 1.0);
  } else {
    state->skip_update = 1;
    control->not_finite += 1;
  }
}

}  // namespace

KernelPtr prepare(Cuda, const GradientNorm& op, const KernelIo& io) {
  using Op = GradientNorm;
  const std::int64_t n = io.inputs[Op::gradients].shape.elements();
  const std::int64_t chunks = (n + gradient_norm_chunk - 1) / gradient_norm_chunk;
  return cuda_kernel(
      io,
      [=](const Addresses& a, cudaStream_t stream) {
        auto* const sums = a.workspace<double>();
        if (chunks > 0) {
          launch(sum_squares, static_cast<unsigned>(chunks), block, 0, stream, n, a.in(Op::gradients), sums);
        }
        launch(finish, 1, block, 0, stream, op.max_norm, chunks, sums, a.out<StepState>(Op::state),
               a.out<ControlBlock>(Op::control));
      },
      static_cast<std::size_t>(chunks) * sizeof(double),
      [n](const Addresses& a) {
        declare_slice(a.in(Op::gradients), static_cast<std::size_t>(n) * sizeof(float));
      });
}

}  // namespace lockstep::kernels
