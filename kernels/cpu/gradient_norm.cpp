#include "kernels/gradient_norm.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd_kernel.h"

namespace lockstep::kernels {
namespace {

void finish(double squares, double max_norm, StepState& state, ControlBlock& control) {
  const double norm = std::sqrt(squares);
  control.gradient_norm = static_cast<float>(norm);
  if (std::isfinite(norm)) {
    state.gradient_scale = static_cast<float>(std::min(1.0, max_norm / (norm + 1e-6)));
  } else {
    state.skip_update = 1;
    control.not_finite += 1;
  }
}

}  // namespace

KernelPtr prepare(Cpu, const GradientNorm& op, const KernelIo& io) {
  using Op = GradientNorm;
  const std::int64_t n = io.inputs[Op::gradients].shape.elements();
  const std::int64_t chunks = (n + gradient_norm_chunk - 1) / gradient_norm_chunk;
  return simd_kernel(
      io,
      [=, kernel = simd::best<Op>()](const Addresses& a) {
        auto* const sums = a.workspace<double>();
        parallel_ranges(chunks, n, 1, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t chunk = begin; chunk < end; ++chunk) {
            const std::int64_t first = chunk * gradient_norm_chunk;
            sums[chunk] = kernel(op, a.in(Op::gradients) + first, std::min(gradient_norm_chunk, n - first));
          }
        });
        double squares = 0;
        for (std::int64_t chunk = 0; chunk < chunks; ++chunk) squares += sums[chunk];
        finish(squares, op.max_norm, *a.out<StepState>(Op::state), *a.out<ControlBlock>(Op::control));
      },
      static_cast<std::size_t>(chunks) * sizeof(double));
}

}  // namespace lockstep::kernels
