#include "kernels/sequence.h"

#include "kernels/cuda/portability.h"

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/grid.h"

namespace lockstep::kernels {
namespace {

constexpr int block = 256;

/// A warp a row.
__global__ void count_tokens(std::int64_t rows, std::int64_t steps, const std::int64_t* tokens,
                             std::int64_t* lengths) {
  const std::int64_t row = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / warp;
  if (row >= rows) return;
  double count = 0;
  for (std::int64_t step = threadIdx.x % warp; step < steps; step += warp) {
    if (tokens[row * steps + step] != -1) count += 1;
  }
  count = sum<warp>(count);
  if (threadIdx.x % warp == 0) lengths[row] = static_cast<std::int64_t>(count);
}

/// Steps, rows, and elements of a row in a step.
struct StepsOf {
  std::int64_t steps, rows, width;
};

__device__ std::int64_t last_of(const StepsOf& x, std::int64_t row, const std::int64_t* lengths) {
  return (lengths == nullptr || lengths[row] > x.steps ? x.steps : lengths[row]) - 1;
}

template <class Element>
__global__ void take_last(StepsOf x, const Element* from, const std::int64_t* lengths, Element* y) {
  for (std::int64_t i = first_item(); i < x.rows * x.width; i += item_stride()) {
    const std::int64_t row = i / x.width;
    const std::int64_t last = last_of(x, row, lengths);
    y[i] = last < 0 ? narrow<Element>(0) : from[(last * x.rows + row) * x.width + i % x.width];
  }
}

template <class Element>
__global__ void put_last(StepsOf x, const Element* dy, const std::int64_t* lengths, Element* dx) {
  for (std::int64_t i = first_item(); i < x.rows * x.steps * x.width; i += item_stride()) {
    const std::int64_t at = i / x.width;
    const std::int64_t row = at % x.rows;
    const bool is_last = at / x.rows == last_of(x, row, lengths);
    dx[i] = is_last ? dy[row * x.width + i % x.width] : narrow<Element>(0);
  }
}

StepsOf steps_of(const Shape& x) {
  return {x[0], x[1], x.elements(2)};
}

}  // namespace

KernelPtr prepare(Cuda, const SequenceLengths&, const KernelIo& io) {
  using Op = SequenceLengths;
  const Shape& shape = io.inputs[Op::tokens].shape;
  return cuda_kernel(io, [rows = shape[0], steps = shape[1]](const Addresses& a, cudaStream_t stream) {
    if (rows == 0) return;
    constexpr std::int64_t rows_of_block = block / warp;
    const auto blocks = blocks_for(rows, rows_of_block);
    launch(count_tokens, blocks, block, 0, stream, rows, steps, a.in<std::int64_t>(Op::tokens),
           a.out<std::int64_t>(Op::lengths));
  });
}

KernelPtr prepare(Cuda, const LastStep&, const KernelIo& io) {
  using Op = LastStep;
  const StepsOf x = steps_of(io.inputs[Op::x].shape);
  return cuda_kernel(io, [x, dtype = io.inputs[Op::x].dtype](const Addresses& a, cudaStream_t stream) {
    const Spread s = spread(x.rows * x.width);
    with_element(dtype, [&]<class Element>(Element*) {
      launch(take_last<Element>, s.blocks, s.threads, 0, stream, x, a.in<Element>(Op::x),
             a.in<std::int64_t>(Op::lengths), a.out<Element>(Op::y));
    });
  });
}

KernelPtr prepare(Cuda, const LastStepBackward&, const KernelIo& io) {
  using Op = LastStepBackward;
  const StepsOf x = steps_of(io.outputs[Op::dx].shape);
  return cuda_kernel(io, [x, dtype = io.inputs[Op::dy].dtype](const Addresses& a, cudaStream_t stream) {
    const Spread s = spread(x.rows * x.steps * x.width);
    with_element(dtype, [&]<class Element>(Element*) {
      launch(put_last<Element>, s.blocks, s.threads, 0, stream, x, a.in<Element>(Op::dy),
             a.in<std::int64_t>(Op::lengths), a.out<Element>(Op::dx));
    });
  });
}

}  // namespace lockstep::kernels
