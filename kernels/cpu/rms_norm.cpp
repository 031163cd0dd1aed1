#include "kernels/rms_norm.h"

#include "kernels/cpu/cpu_kernel.h"
#include "kernels/cpu/norm_rows.h"
#include "kernels/cpu/simd/simd.h"

namespace lockstep::kernels {

KernelPtr prepare(Cpu, const RmsNorm& op, const KernelIo& io) {
  using Op = RmsNorm;
  const NormRows all = rows_of(io.inputs[Op::x]);
  return cpu_kernel(io, [=, kernel = simd::best<Op>()](const Addresses& a) {
    parallel_ranges(all.end, all.end * all.columns, 1, [&](std::int64_t begin, std::int64_t end) {
      kernel(op, {begin, end, all.columns}, a.in(Op::x), a.in(Op::weight), a.out(Op::y), a.out(Op::rstd));
    });
  });
}

KernelPtr prepare(Cpu, const RmsNormBackward& op, const KernelIo& io) {
  using Op = RmsNormBackward;
  const NormRows all = rows_of(io.inputs[Op::x]);
  const RowChunks chunks(all);
  return cpu_kernel(
      io,
      [=, kernel = simd::best<Op>()](const Addresses& a) {
        auto* const sums = a.workspace<float>();
        chunks.for_each([&](std::int64_t chunk, const NormRows& rows) {
          kernel(op, rows, a.in(Op::dy), a.in(Op::x), a.in(Op::weight), a.in(Op::rstd), a.out(Op::dx),
                 sums + chunk * all.columns);
        });
        chunks.add(sums, all.columns, a.out(Op::dweight));
      },
      static_cast<std::size_t>(chunks.count() * all.columns) * sizeof(float));
}

}  // namespace lockstep::kernels
