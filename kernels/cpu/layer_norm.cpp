#include "kernels/layer_norm.h"

#include "kernels/base/error.h"
#include "kernels/base/half.h"
#include "kernels/cpu/norm_rows.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd_kernel.h"
#include "kernels/step_state.h"

namespace lockstep::kernels {
namespace {

/// Of an operand that may be missing.
DType dtype_of(const std::vector<TensorDesc>& operands, std::size_t at) {
  if (at >= operands.size()) return DType::f32;
  if (operands[at].dtype == DType::f16) throw UsageError("layer_norm: f16 is computed on GPUs; use bf16");
  return operands[at].dtype;
}

/// Drops from single rows of bf16, as the op of its own does.
class DropsFromRows {
 public:
  DropsFromRows(const Dropout& op, const TensorDesc& x)
      : op_(op), columns_(x.shape[x.shape.rank() - 1]), in_sample_(x.shape.elements(1)) {}

  void run(const StepState& state, std::int64_t row, const BFloat16* x, BFloat16* y) const {
    const std::int64_t first = row * columns_;
    const DropoutRun run{.random = op_.random(state),
                         .sample = state.first_sample + first / in_sample_ * state.sample_stride,
                         .first = first % in_sample_,
                         .n = columns_,
                         .dtype = DType::bf16};
    kernel_(op_, run, x, y);
  }

 private:
  Dropout op_;
  std::int64_t columns_, in_sample_;
  Dropout::Simd* kernel_ = simd::best<Dropout>();
};

/// y's memory keeps what is left of the residual's row until the norm reads it.
KernelPtr prepare_dropping(const LayerNorm& op, const KernelIo& io, const NormRows& all) {
  using Op = LayerNorm;
  return simd_kernel(io, [=, kernel = simd::best<Op>(),
                          drops = DropsFromRows(op.dropout, io.inputs[Op::residual])](const Addresses& a) {
    const StepState& state = *a.in<StepState>(Op::state);
    const auto of_y = static_cast<std::int64_t>(size_of(all.of_y));
    parallel_ranges(all.end, all.end * all.columns, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t first = row * all.columns;
        char* const y = a.out<char>(Op::y) + first * of_y;
        drops.run(state, row, a.in<BFloat16>(Op::residual) + first, reinterpret_cast<BFloat16*>(y));
        kernel(op, all.part(0, 1), a.in(Op::x) + first, a.in(Op::weight), a.in(Op::bias), y, y,
               a.out(Op::mean) + row, a.out(Op::rstd) + row, a.out(Op::total) + first);
      }
    });
  });
}

}  // namespace

KernelPtr prepare(Cpu, const LayerNorm& op, const KernelIo& io) {
  using Op = LayerNorm;
  NormRows all = rows_of(io.inputs[Op::x]);
  all.of_y = dtype_of(io.outputs, Op::y);
  all.of_residual = dtype_of(io.inputs, Op::residual);
  if (io.inputs.size() > Op::state) return prepare_dropping(op, io, all);
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
  const DropsFromRows drops(op.dropout, io.inputs[Op::x]);
  return simd_kernel(
      io,
      [=, kernel = simd::best<Op>()](const Addresses& a) {
        auto* const sums = a.workspace<float>();
        chunks.for_each([&](std::int64_t chunk, const NormRows& rows) {
          kernel(op, rows, a.in<void>(Op::dy), a.in(Op::x), a.in(Op::weight), a.in(Op::mean), a.in(Op::rstd),
                 a.in(Op::dtotal), a.out(Op::dx), a.out<void>(Op::dresidual), sums + chunk * stride);
          const auto* const state = a.in<StepState>(Op::state);
          for (std::int64_t row = rows.begin; state != nullptr && row < rows.end; ++row) {
            BFloat16* const of_row = a.out<BFloat16>(Op::dresidual) + row * all.columns;
            drops.run(*state, row, of_row, of_row);
          }
        });
        chunks.add(sums, stride, a.out(Op::dweight));
        if (float* const dbias = a.out(Op::dbias)) chunks.add(sums + all.columns, stride, dbias);
      },
      static_cast<std::size_t>(chunks.count() * stride) * sizeof(float));
}

}  // namespace lockstep::kernels
