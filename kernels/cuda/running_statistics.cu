#include "kernels/batch_norm.h"

#include "kernels/cuda/portability.h"

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/grid.h"
#include "kernels/step_state.h"

namespace lockstep::kernels {
namespace {

struct BatchValues {
  const float *mean, *variance;
  const double* moments;  ///< of all ranks, or null
  const StepState* state;
};

struct RunningValues {
  float *mean, *variance;
  std::int64_t* batches;
};

__global__ void move_statistics(RunningStatistics op, std::int64_t channels, BatchValues batch,
                                RunningValues running) {
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (c >= channels || batch.state->skip_update != 0) return;
  const double count = batch.moments == nullptr ? static_cast<double>(op.count) : batch.moments[2 * channels];
  const double correction = count / (count < 2 ? 1 : count - 1);
  const auto move = [&](float& value, float of_batch, double factor) {
    value = static_cast<float>(op.momentum * factor * static_cast<double>(of_batch) +
                               (1 - op.momentum) * static_cast<double>(value));
  };
  move(running.mean[c], batch.mean[c], 1);
  move(running.variance[c], batch.variance[c], correction);
  if (c == 0) ++*running.batches;
}

}  // namespace

KernelPtr prepare(Cuda, const RunningStatistics& op, const KernelIo& io) {
  using Op = RunningStatistics;
  const std::int64_t channels = io.inputs[Op::mean].shape.elements();
  return cuda_kernel(io, [op, channels](const Addresses& a, cudaStream_t stream) {
    const BatchValues batch{.mean = a.in(Op::mean),
                            .variance = a.in(Op::variance),
                            .moments = a.in<double>(Op::moments),
                            .state = a.in<StepState>(Op::state)};
    const RunningValues running{.mean = a.out(Op::running_mean),
                                .variance = a.out(Op::running_variance),
                                .batches = a.out<std::int64_t>(Op::batches)};
    launch(move_statistics, blocks_for(channels, 128), 128, 0, stream, op, channels, batch, running);
  });
}

}  // namespace lockstep::kernels
