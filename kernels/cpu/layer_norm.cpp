#include "kernels/layer_norm.h"

#include <algorithm>

#include "kernels/base/half.h"
#include "kernels/cpu/cpu_kernel.h"
#include "kernels/cpu/norm_rows.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/step_state.h"

namespace lockstep::kernels {
namespace {

/// Drops from rows of bf16, as the op of its own does.
class DropsFromRows {
 public:
  DropsFromRows(const Dropout& op, const TensorDesc& x)
      : op_(op), columns_(x.shape[x.shape.rank() - 1]), in_sample_(x.shape.elements(1)) {}

  /// `body(first, last)` for rows of one sample, so few that they stay in the second cache.
  template <class Body>
  void for_runs(std::int64_t begin, std::int64_t end, const Body& body) const {
    constexpr std::int64_t together = 1 << 13;  // elements
    const std::int64_t of_sample = std::max<std::int64_t>(in_sample_ / columns_, 1);
    while (begin < end) {
      const std::int64_t last = std::min(
          {end, (begin / of_sample + 1) * of_sample, begin + std::max<std::int64_t>(together / columns_, 1)});
      body(begin, last);
      begin = last;
    }
  }

  void drop(const StepState& state, std::int64_t row, std::int64_t end, const BFloat16* x,
            BFloat16* y) const {
    const std::int64_t first = row * columns_;
    const DropoutRun run{.random = op_.random(state),
                         .sample = state.first_sample + first / in_sample_ * state.sample_stride,
                         .first = first % in_sample_,
                         .n = (end - row) * columns_,
                         .dtype = DType::bf16};
    kernel_(op_, run, x, y);
  }

 private:
  Dropout op_;
  std::int64_t columns_, in_sample_;
  Dropout::Simd* kernel_ = simd::best<Dropout>();
};

/// What is left of the residual waits in y's memory until the norm reads it: at the end, so that no row of y
/// covers a later row of it.
KernelPtr prepare_dropping(const LayerNorm& op, const KernelIo& io, const NormRows& all) {
  using Op = LayerNorm;
  const DropsFromRows drops(op.dropout, io.inputs[Op::residual]);
  return cpu_kernel(io, [=, kernel = simd::best<Op>()](const Addresses& a) {
    const StepState& state = *a.in<StepState>(Op::state);
    const auto of_y = static_cast<std::int64_t>(size_of(all.of_y));
    const auto run = [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t first = begin * all.columns;
      char* const y = a.out<char>(Op::y) + first * of_y;
      const auto of_residual = static_cast<std::int64_t>(sizeof(BFloat16));
      auto* const left = reinterpret_cast<BFloat16*>(y + (end - begin) * all.columns * (of_y - of_residual));
      drops.drop(state, begin, end, a.in<BFloat16>(Op::residual) + first, left);
      kernel(op, all.part(0, end - begin), a.in(Op::x) + first, a.in(Op::weight), a.in(Op::bias), left, y,
             a.out(Op::mean) + begin, a.out(Op::rstd) + begin, a.out(Op::total) + first);
    };
    parallel_ranges(all.end, all.end * all.columns, 1,
                    [&](std::int64_t begin, std::int64_t end) { drops.for_runs(begin, end, run); });
  });
}

}  // namespace

KernelPtr prepare(Cpu, const LayerNorm& op, const KernelIo& io) {
  using Op = LayerNorm;
  NormRows all = rows_of(io.inputs[Op::x]);
  all.of_y = dtype_of(io.outputs, Op::y);
  all.of_residual = dtype_of(io.inputs, Op::residual);
  if (io.inputs.size() > Op::state) return prepare_dropping(op, io, all);
  return cpu_kernel(io, [=, kernel = simd::best<Op>()](const Addresses& a) {
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
  return cpu_kernel(
      io,
      [=, kernel = simd::best<Op>()](const Addresses& a) {
        auto* const sums = a.workspace<float>();
        chunks.for_each([&](std::int64_t chunk, const NormRows& rows) {
          kernel(op, rows, a.in<void>(Op::dy), a.in(Op::x), a.in(Op::weight), a.in(Op::mean), a.in(Op::rstd),
                 a.in(Op::dtotal), a.out(Op::dx), a.out<void>(Op::dresidual), sums + chunk * stride);
          const auto* const state = a.in<StepState>(Op::state);
          if (state == nullptr) return;
          drops.for_runs(rows.begin, rows.end, [&](std::int64_t begin, std::int64_t end) {
            BFloat16* const run = a.out<BFloat16>(Op::dresidual) + begin * all.columns;
            drops.drop(*state, begin, end, run, run);
          });
        });
        chunks.add(sums, stride, a.out(Op::dweight));
        if (float* const dbias = a.out(Op::dbias)) chunks.add(sums + all.columns, stride, dbias);
      },
      static_cast<std::size_t>(chunks.count() * stride) * sizeof(float));
}

}  // namespace lockstep::kernels
