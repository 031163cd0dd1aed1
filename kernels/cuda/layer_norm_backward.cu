#include "kernels/layer_norm.h"

#include "kernels/cuda/portability.h"

#include "kernels/cuda/chunk_sums.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/layer_norm_gradient.h"
#include "kernels/rms_norm.h"

namespace lockstep::kernels {
namespace {

/// How sums over rows are cut. Depends on the shape alone.
struct Chunks {
  std::int64_t size, count;

  /// `blocks`: enough for a great GPU. `groups`: rows that a block takes at a time; with fewer than
  /// `least_turns` of them its sums are not worth their way.
  Chunks(const Rows& rows, std::int64_t blocks, std::int64_t groups, std::int64_t least_turns) {
    const std::int64_t wanted = parts_of(rows.count, blocks);
    size = std::max(least_turns * groups, rounded_up(wanted, groups));
    count = std::max<std::int64_t>(1, parts_of(rows.count, size));
  }

  std::size_t bytes(const Rows& rows) const {
    return static_cast<std::size_t>(2 * count * rows.columns) * sizeof(float);
  }
};

constexpr int summing_block(int threads) {
  return std::max(threads, 128);
}

/// A block to a chunk. Each group of `threads` takes a row at a time, and has sums of its own in shared
/// memory, in which every column is one thread's. sums[chunk]: what its rows give dweight, behind it dbias.
template <int threads, int lanes, class Y, class Residual>
__global__ void gradients_of_rows(Rows rows, Chunks chunks, Dropout dropout, std::int64_t in_sample,
                                  LayerNormGradientInputs<Y> from, LayerNormGradients<Residual> to,
                                  float* sums) {
  DYNAMIC_SHARED(float, parts);
  constexpr int groups = summing_block(threads) / threads;
  const std::int64_t width = 2 * rows.columns;
  const std::int64_t group = threadIdx.x / threads;
  float* const mine = parts + group * width;
  for_columns<threads, lanes>(rows.columns, [&](std::int64_t k) {
    store(mine + k, Floats<lanes>::all(0));
    store(mine + rows.columns + k, Floats<lanes>::all(0));
  });
  const RowGradient<Y, Residual> gradient{rows, dropout, in_sample, from, to};
  const std::int64_t begin = blockIdx.x * chunks.size;
  const std::int64_t end = begin + chunks.size < rows.count ? begin + chunks.size : rows.count;
  for (std::int64_t row = begin + group; row < end; row += groups)
    gradient.template run<threads, lanes>(row, mine);
  __syncthreads();
  for (std::int64_t k = threadIdx.x; k < width; k += blockDim.x) {
    float total = parts[k];
    for (int other = 1; other < groups; ++other) total += parts[other * width + k];
    sums[blockIdx.x * width + k] = total;
  }
}

/// For rows of whose sums shared memory is too small: dx alone, a block to a row.
template <int lanes, class Y, class Residual>
__global__ void gradient_of_input(Rows rows, Dropout dropout, std::int64_t in_sample,
                                  LayerNormGradientInputs<Y> from, LayerNormGradients<Residual> to) {
  const RowGradient<Y, Residual> gradient{rows, dropout, in_sample, from, to};
  gradient.template run<block, lanes>(blockIdx.x, nullptr);
}

constexpr int sum_width = 32;  // columns of a block: a warp reads 128 bytes in one piece
constexpr int sum_depth = 8;   // threads to a column

/// The same sums behind it, which read dy and x again. blockIdx.x names the columns, blockIdx.y the chunk.
template <class Y>
__global__ void sum_chunk(Rows rows, Chunks chunks, const Y* dy, const float* x, const float* mean,
                          const float* rstd, float* sums) {
  constexpr int width = sum_width;
  STATIC_SHARED(float, parts, 2 * sum_depth * width);
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * width + threadIdx.x;
  const std::int64_t begin = blockIdx.y * chunks.size;
  const std::int64_t end = begin + chunks.size < rows.count ? begin + chunks.size : rows.count;
  float of_weight = 0;
  float of_bias = 0;
  for (std::int64_t row = begin + threadIdx.y; column < rows.columns && row < end; row += sum_depth) {
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
  for (int other = 1; other < sum_depth; ++other) {
    of_weight += mine[2 * other * width];
    of_bias += mine[2 * other * width + width];
  }
  float* const to = sums + blockIdx.y * 2 * rows.columns + column;
  to[0] = of_weight;
  to[rows.columns] = of_bias;
}

/// The chunks' sums. `dbias` may be null.
__global__ void add_chunks(std::int64_t columns, std::int64_t chunks, const float* sums, float* dweight,
                           float* dbias) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * chunk_columns + threadIdx.x;
  const std::int64_t width = 2 * columns;
  const float total = sum_of_chunks(width, chunks, sums, column);
  if (threadIdx.y != 0 || column >= (dbias == nullptr ? columns : width)) return;
  (column < columns ? dweight[column] : dbias[column - columns]) = total;
}

/// What RMS norm does not have.
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

template <class Op, class Y>
LayerNormGradientInputs<Y> inputs_of(const FurtherBackward& further, const Addresses& a) {
  return {.dy = a.in<Y>(Op::dy),
          .x = a.in(Op::x),
          .weight = a.in(Op::weight),
          .mean = further.mean,
          .rstd = a.in(Op::rstd),
          .dtotal = further.dtotal,
          .state = further.state};
}

template <class Op, class Residual>
LayerNormGradients<Residual> outputs_of(const FurtherBackward& further, const Addresses& a) {
  return {.dx = a.out(Op::dx), .dresidual = static_cast<Residual*>(further.dresidual)};
}

void launch_add_chunks(const Rows& rows, const Chunks& chunks, const float* sums, float* dweight,
                       float* dbias, cudaStream_t stream) {
  launch(add_chunks, blocks_for(2 * rows.columns, chunk_columns), dim3(chunk_columns, chunk_depth), 0, stream,
         rows.columns, chunks.count, sums, dweight, dbias);
}

template <int threads, int lanes, class Y, class Residual, class Op>
KernelPtr one_pass_kernel(const Op& op, const KernelIo& io, const Rows& rows, std::int64_t in_sample) {
  constexpr int groups = summing_block(threads) / threads;
  const Chunks chunks(rows, 1024, groups, 4);
  const std::size_t shared = static_cast<std::size_t>(2 * groups * rows.columns) * sizeof(float);
  return cuda_kernel(
      io,
      [=](const Addresses& a, cudaStream_t stream) {
        const FurtherBackward further(op, a);
        launch(gradients_of_rows<threads, lanes, Y, Residual>, static_cast<unsigned>(chunks.count),
               summing_block(threads), shared, stream, rows, chunks, further.dropout, in_sample,
               inputs_of<Op, Y>(further, a), outputs_of<Op, Residual>(further, a),
               a.template workspace<float>());
        launch_add_chunks(rows, chunks, a.template workspace<const float>(), a.out(Op::dweight),
                          further.dbias, stream);
      },
      chunks.bytes(rows));
}

template <int lanes, class Y, class Residual, class Op>
KernelPtr two_pass_kernel(const Op& op, const KernelIo& io, const Rows& rows, std::int64_t in_sample) {
  const unsigned strips = blocks_for(rows.columns, sum_width);
  const Chunks chunks(rows, std::max<std::int64_t>(1, 2048 / strips), sum_depth, 8);
  return cuda_kernel(
      io,
      [=](const Addresses& a, cudaStream_t stream) {
        const FurtherBackward further(op, a);
        if (rows.count > 0) {
          launch(gradient_of_input<lanes, Y, Residual>, static_cast<unsigned>(rows.count), block, 0, stream,
                 rows, further.dropout, in_sample, inputs_of<Op, Y>(further, a),
                 outputs_of<Op, Residual>(further, a));
        }
        launch(sum_chunk<Y>, dim3(strips, static_cast<unsigned>(chunks.count)), dim3(sum_width, sum_depth), 0,
               stream, rows, chunks, a.template in<Y>(Op::dy), a.in(Op::x), further.mean, a.in(Op::rstd),
               a.template workspace<float>());
        launch_add_chunks(rows, chunks, a.template workspace<const float>(), a.out(Op::dweight),
                          further.dbias, stream);
      },
      chunks.bytes(rows));
}

template <class Op>
KernelPtr backward_kernel(const Op& op, const KernelIo& io, DType residual = DType::f32) {
  const Rows rows = rows_of(io.inputs[Op::x]);
  const std::int64_t in_sample = io.inputs[Op::x].shape.elements(1);
  return for_rows(rows, io.inputs[Op::dy].dtype, residual,
                  [&]<int threads, int lanes, class Y, class Residual>() {
                    if constexpr (threads == block) {
                      if (rows.columns > LayerNormBackward::gpu_longest_summed)
                        return two_pass_kernel<lanes, Y, Residual>(op, io, rows, in_sample);
                    }
                    return one_pass_kernel<threads, lanes, Y, Residual>(op, io, rows, in_sample);
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
