#include "kernels/gradient_norm.h"

#include <algorithm>

#include "kernels/base/division.h"
#include "kernels/cpu/cpu_kernel.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/widened.h"
#include "kernels/gradient_scaling.h"

namespace lockstep::kernels {

KernelPtr prepare(Cpu, const GradientNorm& op, const KernelIo& io) {
  using Op = GradientNorm;
  const std::int64_t n = io.inputs[Op::gradients].shape.elements();
  const std::int64_t chunks = parts_of(n, gradient_norm_chunk);
  return cpu_kernel(
      io,
      [=, kernel = simd::best<Op>(), gradients = io.inputs[Op::gradients].dtype](const Addresses& a) {
        auto& state = *a.out<StepState>(Op::state);
        const float limit = GradientScaling::limit(op, state);
        auto* const sums = a.workspace<double>();
        parallel_ranges(chunks, n, 1, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t chunk = begin; chunk < end; ++chunk) {
            const std::int64_t first = chunk * gradient_norm_chunk;
            const std::int64_t count = std::min(gradient_norm_chunk, n - first);
            sums[chunk] = 0;
            for_each_widened(gradients, a.in<void>(Op::gradients), first, count,
                             [&](const float* g, std::int64_t, std::int64_t some) {
                               sums[chunk] += kernel(op, limit, g, some);
                             });
          }
        });
        double squares = 0;
        for (std::int64_t chunk = 0; chunk < chunks; ++chunk) squares += sums[chunk];
        GradientScaling::finish(op, squares, state, *a.out<ControlBlock>(Op::control));
      },
      static_cast<std::size_t>(chunks) * sizeof(double));
}

}  // namespace lockstep::kernels
