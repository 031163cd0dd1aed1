#include "kernels/position_encoding.h"

#include "kernels/cuda/portability.h"

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/grid.h"

namespace lockstep::kernels {
namespace {

/// The sines and cosines in double, for each pair of columns of each position.
__global__ void make_table(std::int64_t positions, std::int64_t columns, float* table) {
  const std::int64_t pairs = (columns + 1) / 2;
  for (std::int64_t i = first_item(); i < positions * pairs; i += item_stride()) {
    const std::int64_t even = i % pairs * 2;
    const std::int64_t position = i / pairs;
    const double share = static_cast<double>(even) / static_cast<double>(columns);
    const double angle = static_cast<double>(position) * pow(10000.0, -share);
    table[position * columns + even] = static_cast<float>(sin(angle));
    if (even + 1 < columns) table[position * columns + even + 1] = static_cast<float>(cos(angle));
  }
}

__global__ void add_table(std::int64_t total, std::int64_t of_sample, const float* x, const float* table,
                          float* y) {
  for (std::int64_t i = first_item(); i < total; i += item_stride()) y[i] = x[i] + table[i % of_sample];
}

}  // namespace

KernelPtr prepare(Cuda, const PositionEncoding&, const KernelIo& io) {
  using Op = PositionEncoding;
  const Shape& shape = io.inputs[Op::x].shape;
  const std::int64_t columns = shape[shape.rank() - 1];
  const std::int64_t positions = shape[shape.rank() - 2];
  const std::int64_t total = shape.elements();
  const Spread of_table = spread(positions * parts_of(columns, 2));
  const Spread all = spread(total);
  return cuda_kernel(
      io,
      [=](const Addresses& a, cudaStream_t stream) {
        auto* const table = a.workspace<float>();
        launch(make_table, of_table.blocks, of_table.threads, 0, stream, positions, columns, table);
        launch(add_table, all.blocks, all.threads, 0, stream, total, positions * columns, a.in(Op::x),
               a.workspace<const float>(), a.out(Op::y));
      },
      static_cast<std::size_t>(positions * columns) * sizeof(float));
}

}  // namespace lockstep::kernels
