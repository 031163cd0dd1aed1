#include "kernels/layer_norm.h"

#include <algorithm>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd_kernel.h"

namespace lockstep::kernels {
namespace {

/// Enough chunks for a great team, and enough rows in each to be worth the sums that it leaves.
constexpr std::int64_t most_chunks = 64;
constexpr std::int64_t least_rows = 16;

NormRows rows_of(const TensorDesc& x) {
  const std::int64_t columns = x.shape[x.shape.rank() - 1];
  return {0, x.shape.elements() / columns, columns};
}

/// out[k] = the chunks' numbers `sums[k]`, `stride` apart, added in their order.
void add_chunks(std::int64_t chunks, std::int64_t stride, const float* sums, std::int64_t columns,
                float* out) {
  parallel_ranges(columns, chunks * columns, cache_line_floats, [&](std::int64_t begin, std::int64_t end) {
    std::fill(out + begin, out + end, 0.0F);
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      const float* const of_chunk = sums + chunk * stride;
      for (std::int64_t k = begin; k < end; ++k) out[k] += of_chunk[k];
    }
  });
}

}  // namespace

KernelPtr prepare(Cpu, const LayerNorm& op, const KernelIo& io) {
  using Op = LayerNorm;
  const NormRows all = rows_of(io.inputs[Op::x]);
  return simd_kernel(io, [=, kernel = simd::best<Op>()](const Addresses& a) {
    parallel_ranges(all.end, all.end * all.columns, 1, [&](std::int64_t begin, std::int64_t end) {
      kernel(op, {begin, end, all.columns}, a.in(Op::x), a.in(Op::weight), a.in(Op::bias), a.out(Op::y),
             a.out(Op::mean), a.out(Op::rstd));
    });
  });
}

KernelPtr prepare(Cpu, const LayerNormBackward& op, const KernelIo& io) {
  using Op = LayerNormBackward;
  const NormRows all = rows_of(io.inputs[Op::x]);
  const std::int64_t rows = all.end;
  const std::int64_t columns = all.columns;
  const std::int64_t size = std::max(least_rows, (rows + most_chunks - 1) / most_chunks);
  const std::int64_t chunks = (rows + size - 1) / size;
  const std::int64_t stride = 2 * columns;
  return simd_kernel(
      io,
      [=, kernel = simd::best<Op>()](const Addresses& a) {
        auto* const sums = a.workspace<float>();
        parallel_ranges(chunks, rows * columns, 1, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t chunk = begin; chunk < end; ++chunk) {
            kernel(op, {chunk * size, std::min(rows, (chunk + 1) * size), columns}, a.in(Op::dy), a.in(Op::x),
                   a.in(Op::weight), a.in(Op::mean), a.in(Op::rstd), a.out(Op::dx), sums + chunk * stride);
          }
        });
        add_chunks(chunks, stride, sums, columns, a.out(Op::dweight));
        if (float* const dbias = a.out(Op::dbias)) add_chunks(chunks, stride, sums + columns, columns, dbias);
      },
      static_cast<std::size_t>(chunks * stride) * sizeof(float));
}

}  // namespace lockstep::kernels
