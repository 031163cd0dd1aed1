#include "kernels/layer_norm.h"

#include "kernels/base/error.h"
#include "kernels/cpu/norm_rows.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd_kernel.h"

namespace lockstep::kernels {
namespace {

/// Of an operand that may be missing.
DType dtype_of(const std::vector<TensorDesc>& operands, std::size_t at) {
  if (at >= operands.size()) return DType::f32;
  if (operands[at].dtype == DType::f16) throw UsageError("layer_norm: f16 is computed on GPUs; use bf16");
  return operands[at].dtype;
}

}  // namespace

KernelPtr prepare(Cpu, const LayerNorm& op, const KernelIo& io) {
  using Op = LayerNorm;
  NormRows all = rows_of(io.inputs[Op::x]);
  all.of_y = dtype_of(io.outputs, Op::y);
  all.of_residual = dtype_of(io.inputs, Op::residual);
  return simd_kernel(io, [=, kernel = simd::best<Op>()](const Addresses& a) {
    parallel_ranges(all.end, all.end * all.columns, 1, [&](std::int64_t begin, std::int64_t end) {
      kernel(op, all.part(begin, end), a.in(Op::x), a.in(Op::weight), a.in(Op::bias),
             a.in<void>(Op::residual), a.out<void>(Op::y), a.out(Op::mean), a.out(Op::rstd),
             a.out(Op::total));
    });
  });
}

KernelPtr prepare(Cpu, const LayerNormBackward& op, const KernelIo& io) {
  using Op = LayerNormBackward;
  NormRows all = rows_of(io.inputs[Op::x]);
  all.of_y = dtype_of(io.inputs, Op::dy);
  all.of_residual = dtype_of(io.outputs, Op::dresidual);
  const RowChunks chunks(all);
  const std::int64_t stride = 2 * all.columns;
  return simd_kernel(
      io,
      [=, kernel = simd::best<Op>()](const Addresses& a) {
        auto* const sums = a.workspace<float>();
        chunks.for_each([&](std::int64_t chunk, const NormRows& rows) {
          kernel(op, rows, a.in<void>(Op::dy), a.in(Op::x), a.in(Op::weight), a.in(Op::mean), a.in(Op::rstd),
                 a.in(Op::dtotal), a.out(Op::dx), a.out<void>(Op::dresidual), sums + chunk * stride);
        });
        chunks.add(sums, stride, a.out(Op::dweight));
        if (float* const dbias = a.out(Op::dbias)) chunks.add(sums + all.columns, stride, dbias);
      },
      static_cast<std::size_t>(chunks.count() * stride) * sizeof(float));
}

}  // namespace lockstep::kernels
