#include "kernels/layer_norm.h"

#include "kernels/cpu/norm_rows.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd_kernel.h"

namespace lockstep::kernels {

KernelPtr prepare(Cpu, const LayerNorm& op, const KernelIo& io) {
  using Op = LayerNorm;
  const NormRows all = rows_of(io.inputs[Op::x]);
  return simd_kernel(io, [=, kernel = simd::best<Op>()](const Addresses& a) {
    parallel_ranges(all.end, all.end * all.columns, 1, [&](std::int64_t begin, std::int64_t end) {
      kernel(op, {begin, end, all.columns}, a.in(Op::x), a.in(Op::weight), a.in(Op::bias), a.in(Op::residual),
             a.out(Op::y), a.out(Op::mean), a.out(Op::rstd), a.out(Op::total));
    });
  });
}

KernelPtr prepare(Cpu, const LayerNormBackward& op, const KernelIo& io) {
  using Op = LayerNormBackward;
  const NormRows all = rows_of(io.inputs[Op::x]);
  const RowChunks chunks(all);
  const std::int64_t stride = 2 * all.columns;
  return simd_kernel(
      io,
      [=, kernel = simd::best<Op>()](const Addresses& a) {
        auto* const sums = a.workspace<float>();
        chunks.for_each([&](std::int64_t chunk, const NormRows& rows) {
          kernel(op, rows, a.in(Op::dy), a.in(Op::x), a.in(Op::weight), a.in(Op::mean), a.in(Op::rstd),
                 a.in(Op::dtotal), a.out(Op::dx), sums + chunk * stride);
        });
        chunks.add(sums, stride, a.out(Op::dweight));
        if (float* const dbias = a.out(Op::dbias)) chunks.add(sums + all.columns, stride, dbias);
      },
      static_cast<std::size_t>(chunks.count() * stride) * sizeof(float));
}

}  // namespace lockstep::kernels
