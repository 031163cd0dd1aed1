#include "kernels/gather_rows.h"

#include <algorithm>

#include "kernels/cpu/cpu_kernel.h"
#include "kernels/cpu/parallel.h"

// A run on a CPU reads samples where the data set has them: this is for plans of GPUs that are tried here.
namespace lockstep::kernels {

KernelPtr prepare(Cpu, const GatherRows& op, const KernelIo& io) {
  using Op = GatherRows;
  return cpu_kernel(io, [op, rows = io.inputs[Op::samples].shape[0]](const Addresses& a) {
    const auto* const samples = a.in<KeptSample>(Op::samples);
    const std::int64_t input = op.input_bytes();
    const std::int64_t target = op.target_bytes();
    parallel_ranges(rows, rows * op.stored_bytes(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) {
        const auto* const stored = a.in<std::uint8_t>(Op::stored) + samples[n].first * op.stored_bytes();
        std::copy_n(stored, input, a.out<std::uint8_t>(Op::inputs) + n * input);
        std::copy_n(stored + op.target_offset(), target, a.out<std::uint8_t>(Op::targets) + n * target);
      }
    });
  });
}

}  // namespace lockstep::kernels
