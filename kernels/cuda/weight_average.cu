#include "kernels/weight_average.h"

#include "kernels/cuda/portability.h"

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/grid.h"
#include "kernels/lerp.h"

namespace lockstep::kernels {
namespace {

__global__ void move_average(float share, const StepState* state, std::int64_t n, const float* parameter,
                             float* average) {
  if (state->skip_update != 0) return;
  const bool first = state->step == 1;
  for (std::int64_t i = first_item(); i < n; i += item_stride()) {
    average[i] = first ? parameter[i] : lerped(average[i], parameter[i], share);
  }
}

}  // namespace

KernelPtr prepare(Cuda, const WeightAverage& op, const KernelIo& io) {
  using Op = WeightAverage;
  const std::int64_t n = io.inputs[Op::parameter].shape.elements();
  return cuda_kernel(
      io,
      [=, s = spread(n)](const Addresses& a, cudaStream_t stream) {
        launch(move_average, s.blocks, s.threads, 0, stream, static_cast<float>(1 - op.decay),
               a.in<StepState>(Op::state), n, a.in(Op::parameter), a.out(Op::average));
      },
      0,
      [n](const Addresses& a) {
        const auto bytes = static_cast<std::size_t>(n) * sizeof(float);
        declare_slice(a.in(Op::parameter), bytes);
        declare_slice(a.out(Op::average), bytes);
      });
}

}  // namespace lockstep::kernels
