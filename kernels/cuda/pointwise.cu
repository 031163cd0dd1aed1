#include "kernels/pointwise.h"

#include "kernels/cuda/portability.h"

#include <limits>

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/grid.h"
#include "kernels/pointwise_functions.h"

namespace lockstep::kernels {
namespace {

using Part = PointwisePart;

template <class Function, Part part>
struct Unary {
  __device__ float operator()(float x) const { return Function::template value<CudaMath>(x); }
  __device__ float operator()(float of, float dy) const {
    return Function::template gradient<CudaMath>(of, dy);
  }
};

template <class Function, Part part>
struct Binary {
  __device__ float operator()(float a, float b) const { return Function::template value<CudaMath>(a, b); }
  __device__ float operator()(float a, float b, float dy) const {
    if constexpr (part == Part::gradient) return Function::template gradient_a<CudaMath>(a, b, dy);
    return Function::template gradient_b<CudaMath>(a, b, dy);
  }
};

/// One step over flat tensors, four elements at a time.
template <class Step, class Element, class... Operands>
__global__ void map(Step step, std::int64_t n, Element* y, const Operands*... operands) {
  const std::int64_t whole = n / 4;
  for (std::int64_t i = first_item(); i < whole; i += item_stride()) {
    const auto compute = [&](const auto&... four) {
      Four<Element> result;
      for (int k = 0; k < 4; ++k) result.at[k] = narrow<Element>(step(widen(four.at[k])...));
      aligned_cast<Four<Element>>(y)[i] = result;
    };
    compute(aligned_cast<const Four<Operands>>(operands)[i]...);
  }
  for (std::int64_t i = 4 * whole + first_item(); i < n; i += item_stride()) {
    y[i] = narrow<Element>(step(widen(operands[i])...));
  }
}

template <class Element, class Step, std::size_t... operand>
KernelPtr map_kernel(const KernelIo& io, std::int64_t n, Step step, std::index_sequence<operand...>) {
  return cuda_kernel(io, [=, s = spread(parts_of(n, 4))](const Addresses& a, cudaStream_t stream) {
    launch(map<Step, Element, decltype(static_cast<void>(operand), Element())...>, s.blocks, s.threads, 0,
           stream, step, n, a.out<Element>(0), a.in<Element>(operand)...);
  });
}

template <class Element>
KernelPtr one_step_kernel(const KernelIo& io, const Pointwise::Step& step, std::int64_t n) {
  constexpr auto one = std::make_index_sequence<1>();
  constexpr auto two = std::make_index_sequence<2>();
  constexpr auto three = std::make_index_sequence<3>();
  switch (step.function) {
#define LOCKSTEP_UNARY(Function, name)                                       \
  case PointwiseFunction::name: {                                            \
    using Op = Unary<pointwise::Function, Part::value>;                      \
    return step.part == Part::value ? map_kernel<Element>(io, n, Op{}, one)  \
                                    : map_kernel<Element>(io, n, Op{}, two); \
  }
#define LOCKSTEP_BINARY(Function, name)                                            \
  case PointwiseFunction::name: {                                                  \
    using OfA = Binary<pointwise::Function, Part::gradient>;                       \
    using OfB = Binary<pointwise::Function, Part::gradient_b>;                     \
    if (step.part == Part::value) return map_kernel<Element>(io, n, OfA{}, two);   \
    return step.part == Part::gradient ? map_kernel<Element>(io, n, OfA{}, three)  \
                                       : map_kernel<Element>(io, n, OfB{}, three); \
  }
#include "kernels/pointwise.def"
  }
  return nullptr;
}

template <class Function>
__device__ float apply_unary(Part part, float a, float b) {
  return part == Part::value ? Function::template value<CudaMath>(a)
                             : Function::template gradient<CudaMath>(a, b);
}

template <class Function>
__device__ float apply_binary(Part part, float a, float b, float c) {
  if (part == Part::value) return Function::template value<CudaMath>(a, b);
  return part == Part::gradient ? Function::template gradient_a<CudaMath>(a, b, c)
                                : Function::template gradient_b<CudaMath>(a, b, c);
}

__device__ float apply(const Pointwise::Step& step, float a, float b, float c) {
  switch (step.function) {
#define LOCKSTEP_UNARY(Function, name) \
  case PointwiseFunction::name:        \
    return apply_unary<pointwise::Function>(step.part, a, b);
#define LOCKSTEP_BINARY(Function, name) \
  case PointwiseFunction::name:         \
    return apply_binary<pointwise::Function>(step.part, a, b, c);
#include "kernels/pointwise.def"
  }
  return 0;
}

/// PointwiseWalk with all numbers of one width: a GPU divides long ones slowly.
template <class Index>
struct Walk {
  Index axes;
  Index extents[PointwiseWalk::most_axes];
  Index out_strides[PointwiseWalk::most_axes];
  Index in_strides[Pointwise::most_inputs][PointwiseWalk::most_axes];
};

template <class Index>
Walk<Index> narrowed(const PointwiseWalk& from) {
  Walk<Index> to{};
  to.axes = static_cast<Index>(from.axes);
  for (std::size_t axis = 0; axis < from.axes; ++axis) {
    to.extents[axis] = static_cast<Index>(from.extents[axis]);
    to.out_strides[axis] = static_cast<Index>(from.out_strides[axis]);
    for (std::size_t in = 0; in < Pointwise::most_inputs; ++in) {
      to.in_strides[in][axis] = static_cast<Index>(from.in_strides[in][axis]);
    }
  }
  return to;
}

template <class Element>
struct ChainOperands {
  const Element* in[Pointwise::most_inputs];
  Element* out[Pointwise::most_outputs];
};

/// A chain, or one step that broadcasts: the program is read again for each element, from the constant bank.
template <class Element, class Index>
__global__ void chain(Pointwise op, Walk<Index> walk, std::int64_t n, ChainOperands<Element> operands) {
  for (std::int64_t item = first_item(); item < n; item += item_stride()) {
    Index to = 0;
    Index from[Pointwise::most_inputs] = {};
    auto rest = static_cast<Index>(item);
    for (Index axis = walk.axes; axis-- > 0;) {
      const Index index = rest % walk.extents[axis];
      rest /= walk.extents[axis];
      to += index * walk.out_strides[axis];
      for (int i = 0; i < op.inputs; ++i) from[i] += index * walk.in_strides[i][axis];
    }
    float values[Pointwise::most_inputs + Pointwise::most_steps] = {};
    for (int i = 0; i < op.inputs; ++i) values[i] = widen(operands.in[i][from[i]]);
    for (int i = 0; i < op.step_count; ++i) {
      const Pointwise::Step& step = op.steps[i];
      values[Pointwise::most_inputs + i] =
          apply(step, values[step.operands[0]], values[step.operands[1]], values[step.operands[2]]);
    }
    for (int i = 0; i < op.output_count; ++i) {
      operands.out[i][to] = narrow<Element>(values[Pointwise::most_inputs + op.outputs[i]]);
    }
  }
}

template <class Element, class Index>
KernelPtr chain_kernel(const KernelIo& io, const Pointwise& op, const PointwiseWalk& from) {
  const std::int64_t n = from.elements();
  return cuda_kernel(
      io, [=, walk = narrowed<Index>(from), s = spread(n)](const Addresses& a, cudaStream_t stream) {
        ChainOperands<Element> operands;
        for (std::size_t i = 0; i < Pointwise::most_inputs; ++i) operands.in[i] = a.in<Element>(i);
        for (std::size_t i = 0; i < Pointwise::most_outputs; ++i) operands.out[i] = a.out<Element>(i);
        launch(chain<Element, Index>, s.blocks, s.threads, 0, stream, op, walk, n, operands);
      });
}

std::int64_t greatest_offset(const KernelIo& io) {
  std::int64_t greatest = 0;
  for (const auto* side : {&io.inputs, &io.outputs}) {
    for (const TensorDesc& desc : *side) greatest = std::max(greatest, desc.layout_or_row_major().span());
  }
  return greatest;
}

}  // namespace

void choose_layouts(Cuda, const Pointwise& op, KernelIo& io) {
  choose_pointwise_layouts(op, io);
}

KernelPtr prepare(Cuda, const Pointwise& op, const KernelIo& io) {
  const PointwiseWalk walk = pointwise_walk(io);
  const bool narrow_index = greatest_offset(io) <= std::numeric_limits<std::int32_t>::max();
  return with_element(io.outputs[0].dtype, [&]<class Element>(Element*) {
    if (op.step_count == 1 && walk.is_flat())
      return one_step_kernel<Element>(io, op.steps[0], walk.elements());
    return narrow_index ? chain_kernel<Element, std::uint32_t>(io, op, walk)
                        : chain_kernel<Element, std::uint64_t>(io, op, walk);
  });
}

}  // namespace lockstep::kernels
