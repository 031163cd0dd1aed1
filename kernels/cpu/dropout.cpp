#include "kernels/dropout.h"

#include "kernels/cpu/cpu_kernel.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd/simd.h"

namespace lockstep::kernels {

KernelPtr prepare(Cpu, const Dropout& op, const KernelIo& io) {
  const TensorDesc& x = io.inputs[Dropout::x];
  const std::int64_t total = x.shape.elements();
  const DropoutRows rows(op, x.shape);
  return cpu_kernel(io, [=, dtype = x.dtype, kernel = simd::best<Dropout>()](const Addresses& a) {
    const StepState& state = *a.in<StepState>(Dropout::state);
    const auto bytes = static_cast<std::int64_t>(size_of(dtype));
    parallel_ranges(total, total, cache_line_floats, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t at = begin; at < end;) {
        const std::int64_t row = at / rows.run;
        const std::int64_t n = std::min((row + 1) * rows.run, end) - at;
        const std::int64_t step = row / rows.samples;
        const DropoutRun run{.random = op.random(state),
                             .sample = state.first_sample + row % rows.samples * state.sample_stride,
                             .first = step * rows.run + at - row * rows.run,
                             .n = n,
                             .dtype = dtype};
        kernel(op, run, a.in<char>(Dropout::x) + at * bytes, a.out<char>(Dropout::y) + at * bytes);
        at += n;
      }
    });
  });
}

}  // namespace lockstep::kernels
