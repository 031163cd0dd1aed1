#include "kernels/layer_norm.h"

#include "kernels/cuda/portability.h"

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/grid.h"
#include "kernels/rms_norm.h"

/// Layer norm, and RMS norm, which is the same around 0: its kernels get no memory for means.
namespace lockstep::kernels {
namespace {

constexpr std::int64_t columns_of_a_warp = 1024;  // a longer row is a block's
constexpr int warp = 32;
constexpr int block = 256;

struct Rows {
  std::int64_t count, columns;
};

/// The row of each `threads` neighbouring threads.
template <int threads>
__device__ std::int64_t row_of_thread() {
  return (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / threads;
}

/// `visit(k)` for the thread's share of a row, `lanes` elements from column k on.
template <int threads, int lanes, class Visit>
__device__ void for_columns(std::int64_t columns, Visit visit) {
  for (std::int64_t k = threadIdx.x % threads * lanes; k < columns; k += threads * lanes) visit(k);
}

/// `residual` and `total` may be null.
template <int threads, int lanes>
__global__ void normalise(Rows rows, float eps, const float* x, const float* weight, const float* bias,
                          const float* residual, float* y, float* mean, float* rstd, float* total) {
  const std::int64_t row = row_of_thread<threads>();
  if (row >= rows.count) return;
  const auto count = static_cast<float>(rows.columns);
  const float* const from = x + row * rows.columns;
  const float* const other = residual == nullptr ? nullptr : residual + row * rows.columns;
  const auto values = [&](std::int64_t k) {
    auto in = load<lanes>(from + k);
    if (other == nullptr) return in;
    const auto more = load<lanes>(other + k);
    for (int lane = 0; lane < lanes; ++lane) in.at[lane] += more.at[lane];
    return in;
  };
  float center = 0;
  if (mean != nullptr) {
    for_columns<threads, lanes>(rows.columns, [&](std::int64_t k) {
      const auto in = values(k);
      for (int lane = 0; lane < lanes; ++lane) center += in.at[lane];
    });
    center = sum<threads>(center) / count;
  }
  float squares = 0;
  for_columns<threads, lanes>(rows.columns, [&](std::int64_t k) {
    const auto in = values(k);
    for (int lane = 0; lane < lanes; ++lane) squares += (in.at[lane] - center) * (in.at[lane] - center);
  });
  const float scale = CudaMath::rsqrt(sum<threads>(squares) / count + eps);
  for_columns<threads, lanes>(rows.columns, [&](std::int64_t k) {
    auto out = values(k);
    if (total != nullptr) store(total + row * rows.columns + k, out);
    const auto w = load<lanes>(weight + k);
    const auto b = bias == nullptr ? Floats<lanes>::all(0) : load<lanes>(bias + k);
    for (int lane = 0; lane < lanes; ++lane)
      out.at[lane] = (out.at[lane] - center) * scale * w.at[lane] + b.at[lane];
    store(y + row * rows.columns + k, out);
  });
  if (threadIdx.x % threads != 0) return;
  if (mean != nullptr) mean[row] = center;
  rstd[row] = scale;
}

/// With n = (x - mean) * rstd and g = dy * weight: dx = rstd * (g - mean of g - n * mean of (g * n)).
template <int threads, int lanes>
__global__ void gradient_of_input(Rows rows, const float* dy, const float* x, const float* weight,
                                  const float* mean, const float* rstd, const float* dtotal, float* dx) {
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
__global__ void sum_chunk(Rows rows, Chunks chunks, const float* dy, const float* x, const float* mean,
                          const float* rstd, float* sums) {
  constexpr int width = Chunks::width;
  STATIC_SHARED(float, parts, 2 * Chunks::depth * width);
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * width + threadIdx.x;
  const std::int64_t begin = blockIdx.y * chunks.size;
  const std::int64_t end = begin + chunks.size < rows.count ? begin + chunks.size : rows.count;
  float of_weight = 0;
  float of_bias = 0;
  for (std::int64_t row = begin + threadIdx.y; column < rows.columns && row < end; row += Chunks::depth) {
    const float gradient = dy[row * rows.columns + column];
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

Rows rows_of(const TensorDesc& x) {
  const std::int64_t columns = x.shape[x.shape.rank() - 1];
  return {x.shape.elements() / columns, columns};
}

unsigned parts_of(std::int64_t whole, std::int64_t part) {
  return static_cast<unsigned>((whole + part - 1) / part);
}

/// `make.operator()<threads of a row, lanes>()`: what fits the rows.
template <class Make>
KernelPtr for_rows(const Rows& rows, Make make) {
  const bool four = rows.columns % 4 == 0;
  if (rows.columns <= columns_of_a_warp) {
    return four ? make.template operator()<warp, 4>() : make.template operator()<warp, 1>();
  }
  return four ? make.template operator()<block, 4>() : make.template operator()<block, 1>();
}

/// Operands that RMS norm, which is the same around 0, does not have.
struct Further {
  const float* bias = nullptr;
  const float* residual = nullptr;
  float* mean = nullptr;
  float* total = nullptr;

  Further(const LayerNorm&, const Addresses& a)
      : bias(a.in(LayerNorm::bias)),
        residual(a.in(LayerNorm::residual)),
        mean(a.out(LayerNorm::mean)),
        total(a.out(LayerNorm::total)) {}
  Further(const RmsNorm&, const Addresses&) {}
};

struct FurtherBackward {
  const float* mean = nullptr;
  const float* dtotal = nullptr;
  float* dbias = nullptr;

  FurtherBackward(const LayerNormBackward&, const Addresses& a)
      : mean(a.in(LayerNormBackward::mean)),
        dtotal(a.in(LayerNormBackward::dtotal)),
        dbias(a.out(LayerNormBackward::dbias)) {}
  FurtherBackward(const RmsNormBackward&, const Addresses&) {}
};

template <class Op>
KernelPtr forward_kernel(const Op& op, const KernelIo& io) {
  const Rows rows = rows_of(io.inputs[Op::x]);
  return for_rows(rows, [&]<int threads, int lanes>() {
    return cuda_kernel(io, [=, eps = static_cast<float>(op.eps)](const Addresses& a, cudaStream_t stream) {
      if (rows.count == 0) return;
      const Further further(op, a);
      launch(normalise<threads, lanes>, parts_of(rows.count * threads, block), block, 0, stream, rows, eps,
             a.in(Op::x), a.in(Op::weight), further.bias, further.residual, a.out(Op::y), further.mean,
             a.out(Op::rstd), further.total);
    });
  });
}

template <class Op>
KernelPtr backward_kernel(const Op& op, const KernelIo& io) {
  const Rows rows = rows_of(io.inputs[Op::x]);
  const Chunks chunks(rows);
  const std::size_t workspace = static_cast<std::size_t>(2 * chunks.count * rows.columns) * sizeof(float);
  return for_rows(rows, [&]<int threads, int lanes>() {
    return cuda_kernel(
        io,
        [=](const Addresses& a, cudaStream_t stream) {
          const FurtherBackward further(op, a);
          if (rows.count > 0) {
            launch(gradient_of_input<threads, lanes>, parts_of(rows.count * threads, block), block, 0, stream,
                   rows, a.in(Op::dy), a.in(Op::x), a.in(Op::weight), further.mean, a.in(Op::rstd),
                   further.dtotal, a.out(Op::dx));
          }
          launch(sum_chunk, dim3(parts_of(rows.columns, Chunks::width), static_cast<unsigned>(chunks.count)),
                 dim3(Chunks::width, Chunks::depth), 0, stream, rows, chunks, a.in(Op::dy), a.in(Op::x),
                 further.mean, a.in(Op::rstd), a.template workspace<float>());
          launch(add_chunks, parts_of(rows.columns, 128), 128, 0, stream, rows.columns, chunks.count,
                 a.template workspace<const float>(), a.out(Op::dweight), further.dbias);
        },
        workspace);
  });
}

}  // namespace

KernelPtr prepare(Cuda, const LayerNorm& op, const KernelIo& io) {
  return forward_kernel(op, io);
}

KernelPtr prepare(Cuda, const LayerNormBackward& op, const KernelIo& io) {
  return backward_kernel(op, io);
}

KernelPtr prepare(Cuda, const RmsNorm& op, const KernelIo& io) {
  return forward_kernel(op, io);
}

KernelPtr prepare(Cuda, const RmsNormBackward& op, const KernelIo& io) {
  return backward_kernel(op, io);
}

}  // namespace lockstep::kernels
