#include "kernels/cuda/portability.h"

#include <numeric>
#include <optional>

#include "kernels/cuda/pointwise_packs.h"

namespace lockstep::kernels {
namespace {

/// A step in one word. Operands are inputs by number, or, from `most_inputs` on, the result of the step
/// before, of the one before that, and so on.
struct PackedStep {
  static constexpr int part_at = 8, operands_at = 12, operand_bits = 4;

  std::uint32_t word;

  __device__ PointwiseFunction function() const { return static_cast<PointwiseFunction>(word & 0xFF); }
  __device__ PointwisePart part() const { return static_cast<PointwisePart>(word >> part_at & 0xF); }
  __device__ std::uint32_t operand(int k) const { return word >> (operands_at + operand_bits * k) & 0xF; }
};

struct PackedProgram {
  std::uint32_t step_count, output_count;
  std::uint32_t outputs[Pointwise::most_outputs];
  PackedStep steps[Pointwise::most_steps];
};

/// What steps read is selected among registers, those of `inputs` inputs and of the last `results` steps. The
/// program lies in shared memory: parameters whose index is known only at run time would move to local
/// memory.
template <class Element, int inputs, int results>
__global__ void long_chain(PackedProgram op, PackWalk<inputs> walk, PackInputs<Element, inputs> from,
                           ChainOutputs<Element> outputs) {
  constexpr int lanes = pack_lanes<Element>;
  STATIC_SHARED(PackedStep, steps, Pointwise::most_steps);
  LOCKSTEP_UNROLL
  for (unsigned i = 0; i < Pointwise::most_steps; ++i) {
    if (threadIdx.x == i) steps[i] = op.steps[i];
  }
  __syncthreads();
  for (auto item = static_cast<std::uint32_t>(first_item()); item < walk.packs;
       item += static_cast<std::uint32_t>(item_stride())) {
    uint4 packs[inputs];
    load_packs(walk, from, item, packs);
    Floats<lanes> latest[results] = {};
    const auto picked = [&](std::uint32_t operand) {
      if (operand >= Pointwise::most_inputs) {
        Floats<lanes> values = latest[0];
        LOCKSTEP_UNROLL
        for (int i = 1; i < results; ++i) {
          if (operand == Pointwise::most_inputs + i) values = latest[i];
        }
        return values;
      }
      uint4 words = packs[0];
      LOCKSTEP_UNROLL
      for (unsigned i = 1; i < inputs; ++i) {
        if (operand == i) words = packs[i];
      }
      return widen_pack<Element>(words);
    };
    for (std::uint32_t i = 0; i < op.step_count; ++i) {
      const PackedStep step = steps[i];
      const Floats<lanes> result =
          apply<lanes>(step.function(), step.part(), [&](int k) { return picked(step.operand(k)); });
      LOCKSTEP_UNROLL
      for (int older = results - 1; older > 0; --older) latest[older] = latest[older - 1];
      latest[0] = result;
      LOCKSTEP_UNROLL
      for (std::size_t k = 0; k < Pointwise::most_outputs; ++k) {
        if (k < op.output_count && op.outputs[k] == i) {
          store(outputs.at[k] + std::int64_t{lanes} * item, result);
        }
      }
    }
  }
}

std::optional<PackedProgram> packed_program(const Pointwise& op, std::size_t results) {
  PackedProgram program{.step_count = op.step_count, .output_count = op.output_count};
  std::copy(op.outputs.begin(), op.outputs.end(), program.outputs);
  for (std::size_t i = 0; i < op.step_count; ++i) {
    const Pointwise::Step& step = op.steps[i];
    std::size_t word = static_cast<std::size_t>(step.function) | static_cast<std::size_t>(step.part)
                                                                     << PackedStep::part_at;
    for (std::size_t k = 0; k < step.operand_count(); ++k) {
      std::size_t operand = step.operands[k];
      if (operand >= Pointwise::most_inputs) {
        const std::size_t older = Pointwise::result_of(i) - 1U - operand;
        if (older >= results) return {};
        operand = Pointwise::most_inputs + older;
      }
      word |= operand << (PackedStep::operands_at + PackedStep::operand_bits * k);
    }
    program.steps[i].word = static_cast<std::uint32_t>(word);
  }
  return program;
}

template <class Element, int inputs, int results>
ChainLaunch launch_of(const Pointwise& op, const Packs& packs) {
  const auto program = packed_program(op, results);
  if (op.inputs > inputs || !program) return {};
  std::vector<int> all(op.inputs);
  std::iota(all.begin(), all.end(), 0);
  return [program = *program, count = op.inputs, walk = packs.walk<inputs>(all), s = spread(packs.count())](
             const Addresses& a, cudaStream_t stream) {
    PackInputs<Element, inputs> from{};
    for (std::size_t i = 0; i < count; ++i) from.at[i] = a.in<Element>(i);
    launch(long_chain<Element, inputs, results>, s.blocks, s.threads, 0, stream, program, walk, from,
           chain_outputs<Element>(a));
  };
}

}  // namespace

ChainLaunch long_chain(const KernelIo& io, const Pointwise& op, const Packs& packs) {
  return with_element(io.outputs[0].dtype, [&]<class Element>(Element*) {
    // Fewer registers are more threads at a time.
    if (ChainLaunch small = launch_of<Element, 4, 2>(op, packs)) return small;
    return launch_of<Element, Pointwise::most_inputs, 4>(op, packs);
  });
}

}  // namespace lockstep::kernels
