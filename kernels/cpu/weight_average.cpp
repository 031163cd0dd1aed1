#include "kernels/weight_average.h"

#include "kernels/cpu/cpu_kernel.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd/simd.h"

namespace lockstep::kernels {

KernelPtr prepare(Cpu, const WeightAverage& op, const KernelIo& io) {
  using Op = WeightAverage;
  const std::int64_t n = io.inputs[Op::parameter].shape.elements();
  return cpu_kernel(io, [=, kernel = simd::best<Op>()](const Addresses& a) {
    const StepState& state = *a.in<StepState>(Op::state);
    if (state.skip_update != 0) return;
    parallel_ranges(n, n, cache_line_floats, [&](std::int64_t begin, std::int64_t end) {
      kernel(op, state, a.in(Op::parameter) + begin, a.out(Op::average) + begin, end - begin);
    });
  });
}

}  // namespace lockstep::kernels
