#include "kernels/gradient_norm.h"

#include "kernels/cuda/portability.h"

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/grid.h"
#include "kernels/gradient_scaling.h"

namespace lockstep::kernels {
namespace {

constexpr int block = 256;

/// Of a gradient clipped to [-limit, limit]; a NaN stays, and for GradScaler, which looks for them,
/// infinities.
__device__ double square_of(float gradient, float limit, bool keeps_infinite) {
  const float clipped = gradient > limit ? limit : gradient < -limit ? -limit : gradient;
  const double value = keeps_infinite && gradient - gradient != 0 ? gradient : clipped;
  return value * value;
}

/// sums[chunk]: a block each.
template <class Element>
__global__ void sum_squares(GradientNorm op, const StepState* state, std::int64_t n, const Element* gradients,
                            double* sums) {
  const float limit = GradientScaling::limit(op, *state);
  const bool keeps_infinite = op.growth_interval > 0;
  const auto square = [=](Element gradient) { return square_of(widen(gradient), limit, keeps_infinite); };
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * gradient_norm_chunk;
  const std::int64_t end = begin + gradient_norm_chunk < n ? begin + gradient_norm_chunk : n;
  const std::int64_t whole = begin + (end - begin) / 4 * 4;
  double squares = 0;
  for (std::int64_t i = begin + 4 * static_cast<std::int64_t>(threadIdx.x); i < whole; i += 4 * block) {
    const auto& g = aligned_cast<const Four<Element>>(gradients + i)->at;
    squares += square(g[0]) + square(g[1]) + (square(g[2]) + square(g[3]));
  }
  for (std::int64_t i = whole + threadIdx.x; i < end; i += block) squares += square(gradients[i]);
  squares = sum<block>(squares);
  if (threadIdx.x == 0) sums[blockIdx.x] = squares;
}

__global__ void finish(GradientNorm op, std::int64_t chunks, const double* sums, StepState* state,
                       ControlBlock* control) {
  double squares = 0;
  for (std::int64_t chunk = threadIdx.x; chunk < chunks; chunk += block) squares += sums[chunk];
  squares = sum<block>(squares);
  if (threadIdx.x == 0) GradientScaling::finish(op, squares, *state, *control);
}

}  // namespace

KernelPtr prepare(Cuda, const GradientNorm& op, const KernelIo& io) {
  using Op = GradientNorm;
  const std::int64_t n = io.inputs[Op::gradients].shape.elements();
  const std::int64_t chunks = parts_of(n, gradient_norm_chunk);
  const DType dtype = io.inputs[Op::gradients].dtype;
  return with_element(dtype, [&]<class Element>(Element*) {
    return cuda_kernel(
        io,
        [=](const Addresses& a, cudaStream_t stream) {
          auto* const sums = a.workspace<double>();
          if (chunks > 0) {
            launch(sum_squares<Element>, static_cast<unsigned>(chunks), block, 0, stream, op,
                   a.out<StepState>(Op::state), n, a.in<Element>(Op::gradients), sums);
          }
          launch(finish, 1, block, 0, stream, op, chunks, sums, a.out<StepState>(Op::state),
                 a.out<ControlBlock>(Op::control));
        },
        static_cast<std::size_t>(chunks) * sizeof(double),
        [n](const Addresses& a) {
          declare_slice(a.in<Element>(Op::gradients), static_cast<std::size_t>(n) * sizeof(Element));
        });
  });
}

}  // namespace lockstep::kernels
