#include "kernels/linear_rows.h"

#include "kernels/cpu/cpu_kernel.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd/simd.h"

namespace lockstep::kernels {

KernelPtr prepare(Cpu, const LinearRows& op, const KernelIo& io) {
  using Op = LinearRows;
  const MatmulSize size = matmul_size(io.inputs[Op::x].shape, io.inputs[Op::w].shape);
  return cpu_kernel(io, [=, kernel = simd::best<Op>()](const Addresses& a) {
    // Such products come one behind another, and most are short: waking a team for one must be worth more.
    const std::int64_t work = size.rows * size.inputs * size.outputs / 4;
    parallel_ranges(size.outputs, work, cache_line_floats, [&](std::int64_t begin, std::int64_t end) {
      kernel(op, {begin, end, size}, a.in(Op::x), a.in(Op::w), a.in(Op::b), a.out(Op::y));
    });
  });
}

}  // namespace lockstep::kernels
