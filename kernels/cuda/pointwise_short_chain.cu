#include "kernels/cuda/portability.h"

#include <array>

#include "kernels/cuda/pointwise_packs.h"

namespace lockstep::kernels {
namespace {

constexpr int most_operands = 3;

/// A program whose steps are unrolled. Operand k of step s is input `most_operands` * s + k, even where two
/// are one tensor, or else the result of the step before: so each is in registers of its own, where an index
/// known only at run time would need them in local memory.
template <int steps>
struct ShortProgram {
  struct Step {
    std::uint32_t function, part;
    std::uint32_t outputs;  ///< a bit for each that it is
  };
  Step steps_of[steps];
};

template <class Element, int steps>
__global__ void short_chain(ShortProgram<steps> op, PackWalk<most_operands * steps> walk,
                            PackInputs<Element, most_operands * steps> inputs,
                            ChainOutputs<Element> outputs) {
  constexpr int lanes = pack_lanes<Element>;
  for (auto item = static_cast<std::uint32_t>(first_item()); item < walk.packs;
       item += static_cast<std::uint32_t>(item_stride())) {
    uint4 packs[most_operands * steps];
    load_packs(walk, inputs, item, packs);
    Floats<lanes> result;
    LOCKSTEP_UNROLL
    for (int s = 0; s < steps; ++s) {
      const auto& step = op.steps_of[s];
      const auto operand = [&](int k) {
        const int input = most_operands * s + k;
        return s == 0 || walk.loaded(input) ? widen_pack<Element>(packs[input]) : result;
      };
      result = apply<lanes>(static_cast<PointwiseFunction>(step.function),
                            static_cast<PointwisePart>(step.part), operand);
      LOCKSTEP_UNROLL
      for (std::size_t i = 0; i < Pointwise::most_outputs; ++i) {
        if ((step.outputs >> i & 1) != 0) store(outputs.at[i] + std::int64_t{lanes} * item, result);
      }
    }
  }
}

template <class Element, int steps>
ChainLaunch launch_of(const Pointwise& op, const Packs& packs) {
  ShortProgram<steps> program{};
  std::array<int, most_operands * steps> inputs;
  inputs.fill(-1);
  for (std::size_t s = 0; s < steps; ++s) {
    const Pointwise::Step& step = op.steps[s];
    auto& to = program.steps_of[s];
    to.function = static_cast<std::uint32_t>(step.function);
    to.part = static_cast<std::uint32_t>(step.part);
    for (std::size_t i = 0; i < op.output_count; ++i) {
      if (op.outputs[i] == s) to.outputs |= 1U << i;
    }
    for (std::size_t k = 0; k < step.operand_count(); ++k) {
      const bool is_input = step.operands[k] < Pointwise::most_inputs;
      if (is_input) inputs[most_operands * s + k] = step.operands[k];
    }
  }
  return [=, walk = packs.walk<most_operands * steps>(inputs), s = spread(packs.count())](
             const Addresses& a, cudaStream_t stream) {
    PackInputs<Element, most_operands * steps> from{};
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] >= 0) from.at[i] = a.in<Element>(static_cast<std::size_t>(inputs[i]));
    }
    launch(short_chain<Element, steps>, s.blocks, s.threads, 0, stream, program, walk, from,
           chain_outputs<Element>(a));
  };
}

}  // namespace

ChainLaunch short_chain(const KernelIo& io, const Pointwise& op, const Packs& packs) {
  return with_element(io.outputs[0].dtype, [&]<class Element>(Element*) {
    return op.step_count == 1 ? launch_of<Element, 1>(op, packs) : launch_of<Element, 2>(op, packs);
  });
}

}  // namespace lockstep::kernels
