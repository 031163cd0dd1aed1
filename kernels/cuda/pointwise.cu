#include "kernels/pointwise.h"

#include "kernels/cuda/portability.h"

#include <limits>

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/grid.h"
#include "kernels/cuda/pointwise_packs.h"

namespace lockstep::kernels {
namespace {

using Part = PointwisePart;

/// One step over flat tensors, 16 bytes of each at a time.
template <class Step, class Element, class... Operands>
__global__ void map(Step step, std::int64_t n, Element* y, const Operands*... operands) {
  constexpr int lanes = pack_lanes<Element>;
  const std::int64_t whole = n / lanes;
  for (std::int64_t i = first_item(); i < whole; i += item_stride()) {
    store(y + lanes * i, in_lanes<lanes>(step, load<lanes>(operands + lanes * i)...));
  }
  for (std::int64_t i = lanes * whole + first_item(); i < n; i += item_stride()) {
    y[i] = narrow<Element>(step(widen(operands[i])...));
  }
}

template <class Element, class Step, std::size_t... operand>
KernelPtr map_kernel(const KernelIo& io, std::int64_t n, Step step, std::index_sequence<operand...>) {
  return cuda_kernel(
      io, [=, s = spread(parts_of(n, pack_lanes<Element>))](const Addresses& a, cudaStream_t stream) {
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
    using Op = UnaryStep<pointwise::Function>;                               \
    return step.part == Part::value ? map_kernel<Element>(io, n, Op{}, one)  \
                                    : map_kernel<Element>(io, n, Op{}, two); \
  }
#define LOCKSTEP_BINARY(Function, name)                                            \
  case PointwiseFunction::name: {                                                  \
    using OfA = BinaryStep<pointwise::Function, Part::gradient>;                   \
    using OfB = BinaryStep<pointwise::Function, Part::gradient_b>;                 \
    if (step.part == Part::value) return map_kernel<Element>(io, n, OfA{}, two);   \
    return step.part == Part::gradient ? map_kernel<Element>(io, n, OfA{}, three)  \
                                       : map_kernel<Element>(io, n, OfB{}, three); \
  }
#include "kernels/pointwise.def"
  }
  return nullptr;
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
struct ChainInputs {
  const Element* at[Pointwise::most_inputs];
};

/// Elements from `first` on of what packs do not fit: the program is read again for each of them.
template <class Element, class Index>
__global__ void chain(Pointwise op, Walk<Index> walk, std::int64_t first, std::int64_t n,
                      ChainInputs<Element> inputs, ChainOutputs<Element> outputs) {
  for (std::int64_t item = first + first_item(); item < n; item += item_stride()) {
    Index to = 0;
    Index from[Pointwise::most_inputs] = {};
    auto rest = static_cast<Index>(item);
    for (Index axis = walk.axes; axis-- > 0;) {
      const Index index = rest % walk.extents[axis];
      rest /= walk.extents[axis];
      to += index * walk.out_strides[axis];
      for (int i = 0; i < op.inputs; ++i) from[i] += index * walk.in_strides[i][axis];
    }
    Floats<1> values[Pointwise::most_inputs + Pointwise::most_steps] = {};
    for (int i = 0; i < op.inputs; ++i) values[i].at[0] = widen(inputs.at[i][from[i]]);
    for (int i = 0; i < op.step_count; ++i) {
      const Pointwise::Step& step = op.steps[i];
      values[Pointwise::most_inputs + i] =
          apply<1>(step.function, step.part, [&](int k) { return values[step.operands[k]]; });
    }
    for (int i = 0; i < op.output_count; ++i) {
      outputs.at[i][to] = narrow<Element>(values[Pointwise::most_inputs + op.outputs[i]].at[0]);
    }
  }
}

template <class Element, class Index>
ChainLaunch chain_launch(const Pointwise& op, const PointwiseWalk& from, std::int64_t first) {
  const std::int64_t n = from.elements();
  return [=, walk = narrowed<Index>(from), s = spread(n - first)](const Addresses& a, cudaStream_t stream) {
    ChainInputs<Element> inputs;
    for (std::size_t i = 0; i < Pointwise::most_inputs; ++i) inputs.at[i] = a.in<Element>(i);
    launch(chain<Element, Index>, s.blocks, s.threads, 0, stream, op, walk, first, n, inputs,
           chain_outputs<Element>(a));
  };
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
  return with_element(io.outputs[0].dtype, [&]<class Element>(Element*) -> KernelPtr {
    if (op.step_count == 1 && walk.is_flat())
      return one_step_kernel<Element>(io, op.steps[0], walk.elements());
    std::int64_t first = 0;
    ChainLaunch in_packs;
    if (const auto packs = Packs::of(walk, op.inputs, pack_lanes<Element>)) {
      in_packs = op.step_count <= 2 ? short_chain(io, op, *packs) : long_chain(io, op, *packs);
      if (in_packs) first = packs->elements();
    }
    if (in_packs && first == walk.elements()) return cuda_kernel(io, in_packs);
    const ChainLaunch rest = narrow_index ? chain_launch<Element, std::uint32_t>(op, walk, first)
                                          : chain_launch<Element, std::uint64_t>(op, walk, first);
    return cuda_kernel(io, [=](const Addresses& a, cudaStream_t stream) {
      if (in_packs) in_packs(a, stream);
      rest(a, stream);
    });
  });
}

}  // namespace lockstep::kernels
