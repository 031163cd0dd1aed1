#pragma once

#include <string>
#include <string_view>

#include "kernels/base/export.h"
#include "kernels/layout.h"

/// The description of an op is a struct that graph and kernels share:
///
///   name           what plans and messages call it, unless `title()` does
///   layouts        a LayoutRule
///   In, Out        enums that name its operands in their order; optional ones come last
///   fields(visit)  calls visit("name", value) for each attribute
///   infer(in)      the types of its outputs: the one rule of shapes and dtypes
///
/// A gradient has the shape and dtype of its value, so the description of a backward op has no `infer`;
/// `check(in, out)` names the forward op and which of its operands they are. Optional members: `overwrites`,
/// the input (if it is there) whose memory output 0 may take; `flops(in, out)` where it is not one an element
/// of output 0; `Simd`, the type of the CPU's SIMD kernel (kernels/cpu/simd); `is_view`, of one that has no
/// kernel but `view(io)`, which tells how the output lies in the input's memory, and `offset(dtype)`, of one
/// that begins so many bytes behind the input's begin.
///
/// Attributes that the passes find by their names (model/spec_op.h), so that no other may be called so:
///
///   algorithm      an Algorithm: --benchmark sets it, of those that `algorithms` of the backend lists
///   precision      a MatmulPrecision, of a gradient also `forward.precision`: --matmul-precision and
///                  --conv-precision set it
///   activation     an Activation: the fuse pass may put the relu behind the op there
namespace lockstep::kernels {

enum class LayoutRule {
  row_major,  ///< every tensor; rows of zeros may lie behind its own, which a kernel leaves as they are
  by_kernel,  ///< `choose_layouts` of the backend
};

/// UsageError; the caller adds the op and its layer.
[[noreturn]] LOCKSTEP_API void throw_misfit(const std::string& what);

/// UsageError "<wanted> wanted, got <n> inputs" unless there are from `least` to `most`.
LOCKSTEP_API void require_count(TypeSpan in, std::size_t least, std::size_t most);
LOCKSTEP_API void require_type(std::string_view operand, const TensorType& type, const TensorType& wanted);
LOCKSTEP_API void require_dtype(std::string_view operand, const TensorType& type, DType wanted);
LOCKSTEP_API void require_same_dtype(std::string_view a, const TensorType& type_a, std::string_view b,
                                     const TensorType& type_b);
/// f32, bf16 or f16.
LOCKSTEP_API void require_floats(std::string_view operand, const TensorType& type);
LOCKSTEP_API void require_rank(std::string_view operand, const TensorType& type, std::size_t rank);

/// UsageError naming the operand unless `op` gives `out` for `in`.
template <class Op>
void require_forward(const Op& op, TypeSpan in, TypeSpan out) {
  const Types inferred = op.infer(in);
  if (inferred.size() < out.size()) throw_misfit("more outputs than " + std::string(Op::name) + " has");
  for (std::size_t i = 0; i < out.size(); ++i)
    require_type("output " + std::to_string(i), out[i], inferred[i]);
}

/// UsageError unless every tensor has a layout that `rule` allows.
LOCKSTEP_API void require_layouts(LayoutRule rule, const KernelIo& io);

void require_same_layout(const TensorDesc& a, const TensorDesc& b);

/// The name of the op goes before what `check` throws.
[[noreturn]] LOCKSTEP_API void rethrow_for(std::string_view op);

/// Its `title()`, where a description makes one of its attributes, else its name.
template <class Op>
std::string op_name(const Op& op) {
  if constexpr (requires { op.title(); }) {
    return op.title();
  } else {
    return std::string(Op::name);
  }
}

/// UsageError naming op and operand unless the tensors are what the description of the op says.
template <class Op>
void require_operands(const Op& op, const KernelIo& io) {
  try {
    const Types in = types_of(io.inputs);
    const Types out = types_of(io.outputs);
    if constexpr (requires { op.infer(in); }) {
      require_forward(op, in, out);
    } else {
      op.check(in, out);
    }
    require_layouts(Op::layouts, io);
  } catch (...) {
    rethrow_for(op_name(op));
  }
}

}  // namespace lockstep::kernels
