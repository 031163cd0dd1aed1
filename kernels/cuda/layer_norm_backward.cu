#include "kernels/layer_norm.h"

#include "kernels/cuda/portability.h"

#include <type_traits>

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/grid.h"
#include "kernels/cuda/layer_norm_rows.h"
#include "kernels/rms_norm.h"

namespace lockstep::kernels {
namespace {

/// With n = (x - mean) * rstd and g = dy * weight: dx = rstd * (g - mean of g - n * mean of (g * n)).
/// `dtotal` and `dresidual` may be null, and so may `state`: nothing is dropped.
template <int threads, int lanes, class Y, class Residual>
__global__ void gradient_of_input(Rows rows, Dropout dropout, std::int64_t in_sample, const Y* dy,
                                  const float* x, const float* weight, const float* mean, const float* rstd,
                                  const float* dtotal, const StepState* state, float* dx,
                                  Residual* dresidual) {
  const std::int64_t row = row_of_thread<threads>();
  if (row >= rows.count) return;
  const auto count = static_cast<float>(rows.columns);
  const float center = mean == nullptr ? 0 : mean[row];
  const float scale = rstd[row];
  const auto visit_terms = [&](auto visit) {
    for_columns<threads, lanes>(rows.columns, [&](std::int64_t k) {
      auto g = load<lanes>(dy + row * rows.columns + k);
      auto n = load<lanes>(x + row * rows.columns + k);
      const auto w = load<lanes>(weight + k);
      for (int lane = 0; lane < lanes; ++lane) {
        g.at[lane] *= w.at[lane];
        n.at[lane] = (n.at[lane] - center) * scale;
      }
      visit(k, g, n);
    });
  };
  float total = 0;
  float along = 0;
  visit_terms([&](std::int64_t, const Floats<lanes>& g, const Floats<lanes>& n) {
    for (int lane = 0; lane < lanes; ++lane) {
      total += g.at[lane];
      along += g.at[lane] * n.at[lane];
    }
  });
  const float shift = mean == nullptr ? 0 : sum<threads>(total) / count;
  const float slope = sum<threads>(along) / count;
  visit_terms([&](std::int64_t k, const Floats<lanes>& g, const Floats<lanes>& n) {
    Floats<lanes> out;
    for (int lane = 0; lane < lanes; ++lane) out.at[lane] = scale * (g.at[lane] - shift - n.at[lane] * slope);
    if (dtotal != nullptr) {
      const auto more = load<lanes>(dtotal + row * rows.columns + k);
      for (int lane = 0; lane < lanes; ++lane) out.at[lane] += more.at[lane];
    }
    store(dx + row * rows.columns + k, out);
    if (dresidual == nullptr) return;
    if constexpr (lanes == 4 && !std::is_same_v<Residual, float>) {
      const std::int64_t first = row * rows.columns;
      if (state != nullptr) out = DroppedRow(dropout, *state, first, in_sample).template of<Residual>(k, out);
    }
    store(dresidual + row * rows.columns + k, out);
  });
}

/// How the sums over rows are cut: a block for `width` columns of a chunk of rows. Depends on the shape
/// alone.
struct Chunks {
  static constexpr int width = 32;  // a warp reads 128 bytes in one piece
  static constexpr int depth = 8;   // threads to a column

  std::int64_t size, count;

  explicit Chunks(const Rows& rows) {
    constexpr std::int64_t blocks = 2048;  // enough for a great GPU
    const std::int64_t wanted = std::max<std::int64_t>(1, blocks * width / rows.columns);
    size = std::max<std::int64_t>(8 * depth, (rows.count + wanted - 1) / wanted);
    count = std::max<std::int64_t>(1, (rows.count + size - 1) / size);
  }
};

/// sums[chunk]: what its rows give dweight, behind it dbias. blockIdx.x names the columns, blockIdx.y the
/// chunk.
template <class Y>
__global__ void sum_chunk(Rows rows, Chunks chunks, const Y* dy, const float* x, const float* mean,
                          const float* rstd, float* sums) {
  constexpr int width = Chunks::width;
  STATIC_SHARED(float, parts, 2 * Chunks::depth * width);
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * width + threadIdx.x;
  const std::int64_t begin = blockIdx.y * chunks.size;
  const std::int64_t end = begin + chunks.size < rows.count ? begin + chunks.size : rows.count;
  float of_weight = 0;
  float of_bias = 0;
  for (std::int64_t row = begin + threadIdx.y; column < rows.columns && row < end; row += Chunks::depth) {
    const float gradient = widen(dy[row * rows.columns + column]);
    const float center = mean == nullptr ? 0 : mean[row];
    of_weight += gradient * ((x[row * rows.columns + column] - center) * rstd[row]);
    of_bias += gradient;
  }
  float* const mine = parts + 2 * threadIdx.y * width + threadIdx.x;
  mine[0] = of_weight;
  mine[width] = of_bias;
  __syncthreads();
  if (threadIdx.y != 0 || column >= rows.columns) return;
  for (int other = 1; other < Chunks::depth; ++other) {
    of_weight += mine[2 * other * width];
    of_bias += mine[2 * other * width + width];
  }
  float* const to = sums + blockIdx.y * 2 * rows.columns + column;
  to[0] = of_weight;
  to[rows.columns] = of_bias;
}

/// The chunks' sums, in their order. `dbias` may be null.
__global__ void add_chunks(std::int64_t columns, std::int64_t chunks, const float* sums, float* dweight,
                           float* dbias) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  float of_weight = 0;
  float of_bias = 0;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    of_weight += sums[2 * chunk * columns + column];
    of_bias += sums[(2 * chunk + 1) * columns + column];
  }
  dweight[column] = of_weight;
  if (dbias != nullptr) dbias[column] = of_bias;
}

/// Operands that RMS norm does not have.
struct FurtherBackward {
  const float* mean = nullptr;
  Dropout dropout;
  const float* dtotal = nullptr;
  const StepState* state = nullptr;
  float* dbias = nullptr;
  void* dresidual = nullptr;

  FurtherBackward(const LayerNormBackward& op, const Addresses& a)
      : mean(a.in(LayerNormBackward::mean)),
        dropout(op.dropout),
        dtotal(a.in(LayerNormBackward::dtotal)),
        state(a.in<StepState>(LayerNormBackward::state)),
        dbias(a.out(LayerNormBackward::dbias)),
        dresidual(a.out<void>(LayerNormBackward::dresidual)) {}
  FurtherBackward(const RmsNormBackward&, const Addresses&) {}
};

template <class Op>
KernelPtr backward_kernel(const Op& op, const KernelIo& io, DType residual = DType::f32) {
  const Rows rows = rows_of(io.inputs[Op::x]);
  const std::int64_t in_sample = io.inputs[Op::x].shape.elements(1);
  const Chunks chunks(rows);
  const std::size_t workspace = static_cast<std::size_t>(2 * chunks.count * rows.columns) * sizeof(float);
  return for_rows(
      rows, io.inputs[Op::dy].dtype, residual, [&]<int threads, int lanes, class Y, class Residual>() {
        return cuda_kernel(
            io,
            [=](const Addresses& a, cudaStream_t stream) {
              const FurtherBackward further(op, a);
              if (rows.count > 0) {
                launch(gradient_of_input<threads, lanes, Y, Residual>, parts_of(rows.count * threads, block),
                       block, 0, stream, rows, further.dropout, in_sample, a.template in<Y>(Op::dy),
                       a.in(Op::x), a.in(Op::weight), further.mean, a.in(Op::rstd), further.dtotal,
                       further.state, a.out(Op::dx), static_cast<Residual*>(further.dresidual));
              }
              launch(sum_chunk<Y>,
                     dim3(parts_of(rows.columns, Chunks::width), static_cast<unsigned>(chunks.count)),
                     dim3(Chunks::width, Chunks::depth), 0, stream, rows, chunks, a.template in<Y>(Op::dy),
                     a.in(Op::x), further.mean, a.in(Op::rstd), a.template workspace<float>());
              launch(add_chunks, parts_of(rows.columns, 128), 128, 0, stream, rows.columns, chunks.count,
                     a.template workspace<const float>(), a.out(Op::dweight), further.dbias);
            },
            workspace);
      });
}

}  // namespace

KernelPtr prepare(Cuda, const LayerNormBackward& op, const KernelIo& io) {
  return backward_kernel(op, io, dtype_of(io.outputs, LayerNormBackward::dresidual));
}

KernelPtr prepare(Cuda, const RmsNormBackward& op, const KernelIo& io) {
  return backward_kernel(op, io);
}

}  // namespace lockstep::kernels
