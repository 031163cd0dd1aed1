#pragma once

#include "kernels/base/philox.h"
#include "kernels/op.h"
#include "kernels/step_state.h"

namespace lockstep::kernels {

struct DropoutRun;

/// nn.Dropout in training: x / (1 - p), or 0 with probability p. What is dropped follows from the run's seed,
/// the global step, `stream`, the sample's place in the global batch and the element's in the sample, by
/// Philox: not from ranks, threads or device. Nothing is stored: the gradient is the same op on dy.
/// x (N, ...), or steps first (T, N, ...), f32 or bf16 (f16 on GPUs).
struct Dropout {
  static constexpr std::string_view name = "dropout";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  static constexpr std::size_t overwrites = 0;
  enum In : std::size_t { x, state };
  enum Out : std::size_t { y };
  using Simd = void(const Dropout&, const DropoutRun&, const void* x, void* y);

  double p = 0;             ///< in [0, 1)
  std::int64_t stream = 0;  ///< of the node: each dropout of a model drops elements of its own
  bool steps_first = false;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("p", p);
    visit("stream", stream);
    visit("steps first", steps_first);
  }

  Types infer(TypeSpan in) const {
    require_count(in, 2, 2);
    require_floats("x", in[x]);
    require_type("the step's state", in[state], step_state_type());
    if (in[x].shape.rank() < (steps_first ? 2 : 1)) {
      throw_misfit(in[x].shape.str() + " has no dimension of samples");
    }
    return {in[x]};
  }

  constexpr float scale() const { return static_cast<float>(1 / (1 - p)); }

  /// A random word below it drops its element.
  constexpr std::uint32_t threshold() const {
    constexpr double words = 0x1p32;
    const double below = p * words + 0.5;
    return below < words ? static_cast<std::uint32_t>(below) : 0xFFFFFFFFU;
  }

  /// The step's random words: element i of a sample has word i % 4 of block `dropout_block(sample, i / 4)`.
  /// The highest bit keeps these streams apart from those that parameters start with.
  constexpr Philox random(const StepState& at) const {
    const auto step = static_cast<std::uint64_t>(at.global_step) & 0xFFFFFFFFFFU;
    return {at.seed, std::uint64_t{1} << 63 | static_cast<std::uint64_t>(stream) << 40 | step};
  }
};

/// How x lies: in each of `steps` a run of every sample. A sample's elements are numbered from step to step.
struct DropoutRows {
  std::int64_t steps, samples, run;

  DropoutRows(const Dropout& op, const Shape& x)
      : steps(op.steps_first ? x[0] : 1),
        samples(x[op.steps_first ? 1 : 0]),
        run(x.elements(op.steps_first ? 2 : 1)) {}
};

constexpr std::uint64_t dropout_block(std::int64_t sample, std::int64_t four) {
  return static_cast<std::uint64_t>(sample) << 32 | static_cast<std::uint64_t>(four);
}

/// Elements of one sample, from `first` on, on the CPU.
struct DropoutRun {
  Philox random;
  std::int64_t sample;  ///< in the global batch
  std::int64_t first, n;
  DType dtype;
};

}  // namespace lockstep::kernels
