#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "kernels/base/export.h"
#include "kernels/op.h"

namespace lockstep::kernels {

/// The functions of pointwise.def.
enum class PointwiseFunction : std::uint8_t {
#define LOCKSTEP_UNARY(Function, name) name,
#define LOCKSTEP_BINARY(Function, name) name,
#include "kernels/pointwise.def"
};

/// What of a function a step computes. A unary one has `value` and `gradient`.
enum class PointwisePart : std::uint8_t { value, gradient, gradient_b };

struct PointwiseRun;

/// A chain of functions over tensors that broadcast to one shape, as in PyTorch, in one pass over memory. The
/// first operands are the inputs, then the results of the steps in their order; `outputs` lists what is
/// written. One step is the common case; the fuse pass joins several.
struct LOCKSTEP_API Pointwise {
  static constexpr std::string_view name = "pointwise";
  static constexpr LayoutRule layouts = LayoutRule::by_kernel;
  static constexpr std::size_t overwrites = 0;
  using Simd = void(const Pointwise&, const PointwiseRun&);

  static constexpr std::size_t most_inputs = 6;
  static constexpr std::size_t most_steps = 8;
  static constexpr std::size_t most_outputs = 3;

  /// An operand: input i, or most_inputs + i for the result of step i.
  using Operand = std::uint8_t;
  static constexpr Operand result_of(std::size_t step) { return static_cast<Operand>(most_inputs + step); }

  struct Step {
    PointwiseFunction function;
    PointwisePart part = PointwisePart::value;
    std::array<Operand, 3> operands{0, 1, 2};
    bool operator==(const Step&) const = default;

    std::size_t operand_count() const;
    std::string str() const;  ///< "relu", "relu_backward"
  };

  std::uint8_t inputs = 1;
  std::uint8_t step_count = 1;
  std::uint8_t output_count = 1;
  std::array<Step, most_steps> steps{};
  std::array<std::uint8_t, most_outputs> outputs{};  ///< steps whose results are written; the last is

  static Pointwise single(PointwiseFunction function, PointwisePart part = PointwisePart::value);

  /// Whether it is this function alone.
  bool is(PointwiseFunction function, PointwisePart part = PointwisePart::value) const {
    return step_count == 1 && steps[0].function == function && steps[0].part == part;
  }

  /// "relu", "add+relu": what a plan calls it.
  std::string title() const;
  /// Whether zeros in give zeros out, so that padding stays zero.
  bool keeps_zero() const;

  template <class Visit>
  void fields(Visit&&) const {}  // its name is its program

  Types infer(TypeSpan in) const;
};

/// One run of a pointwise op on the CPU: n elements, side by side in the outputs.
struct PointwiseRun {
  const void* in[Pointwise::most_inputs];
  std::int64_t in_stride[Pointwise::most_inputs];       ///< in elements; 0: one number for all
  std::int64_t in_period[Pointwise::most_inputs] = {};  ///< an operand that starts again after so many; or 0
  void* out[Pointwise::most_outputs];
  std::int64_t n;
  DType dtype;  ///< f32 or bf16, of all tensors; sums and functions are f32
};

/// The shape that both broadcast to. UsageError when they do not.
LOCKSTEP_API Shape broadcast(const Shape& a, const Shape& b);

/// For `join`: an input of the result that `first` does not have.
inline constexpr Pointwise::Operand new_input = 0xFF;

/// Both in one program. `read` says what each input of `second` is there: an operand of `first`, or
/// `new_input`. The inputs of the result are those of `first`, then the new ones; its outputs are those of
/// `first` that `kept` says, then those of `second`. Nothing when there are too many.
std::optional<Pointwise> join(const Pointwise& first, const Pointwise& second,
                              std::span<const Pointwise::Operand> read, std::span<const bool> kept);

/// How a pointwise kernel walks memory: nested loops, the greatest strides outside, joined where they are one
/// run. Strides are in elements; that of an operand is 0 along what it is broadcast over.
struct PointwiseWalk {
  static constexpr std::size_t most_axes = 6;

  std::size_t axes = 0;
  std::array<std::int64_t, most_axes> extents{};
  std::array<std::int64_t, most_axes> out_strides{};
  std::array<std::array<std::int64_t, most_axes>, Pointwise::most_inputs> in_strides{};

  std::int64_t elements() const;
  bool is_flat() const;  ///< one run, nothing is broadcast
};

/// Without broadcasting all tensors have the same layout, which may be any, and padding is walked over too.
/// With it those of the full shape have one without gaps, strided or blocked, and the others the same without
/// the dimensions that they are broadcast over. UsageError otherwise.
PointwiseWalk pointwise_walk(const KernelIo& io);

/// Full tensors take the layout of the first of them, if the kernel can walk it and padding stays zero.
void choose_pointwise_layouts(const Pointwise& op, KernelIo& io);

/// x keeps its layout if the kernel can walk it; y, which is broadcast to x, takes the matching one.
void choose_sum_layouts(TensorDesc& x, TensorDesc& y);

}  // namespace lockstep::kernels
