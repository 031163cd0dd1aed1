#include "kernels/op.h"

#include <fmt/format.h>

#include "kernels/base/error.h"

namespace lockstep::kernels {
namespace {

void require_row_major(const TensorDesc& desc) {
  if (!desc.layout || desc.layout->lies_row_major(desc.shape)) return;
  throw UsageError(
      fmt::format("a tensor {} has layout {}, must be row-major", desc.shape.str(), desc.layout->str()));
}

}  // namespace

void throw_misfit(const std::string& what) {
  throw UsageError(what);
}

void require_count(TypeSpan in, std::size_t least, std::size_t most) {
  if (in.size() >= least && in.size() <= most) return;
  throw UsageError(least == most ? fmt::format("{} inputs wanted, got {}", least, in.size())
                                 : fmt::format("{} to {} inputs wanted, got {}", least, most, in.size()));
}

void require_type(std::string_view operand, const TensorType& type, const TensorType& wanted) {
  if (type == wanted) return;
  throw UsageError(fmt::format("{} is {}, must be {}", operand, type.str(), wanted.str()));
}

void require_dtype(std::string_view operand, const TensorType& type, DType wanted) {
  if (type.dtype == wanted) return;
  throw UsageError(fmt::format("{} is {}, must be {}", operand, type.str(), name_of(wanted)));
}

void require_same_dtype(std::string_view a, const TensorType& type_a, std::string_view b,
                        const TensorType& type_b) {
  if (type_a.dtype == type_b.dtype) return;
  throw UsageError(
      fmt::format("{} is {}, {} {}: both must have one dtype", a, type_a.str(), b, type_b.str()));
}

void require_floats(std::string_view operand, const TensorType& type) {
  if (type.dtype == DType::f32 || is_half(type.dtype)) return;
  throw UsageError(fmt::format("{} is {}, must be f32, bf16 or f16: save it as f32", operand, type.str()));
}

void require_rank(std::string_view operand, const TensorType& type, std::size_t rank) {
  if (type.shape.rank() == rank) return;
  throw UsageError(fmt::format("{} is {}, must have {} dimensions", operand, type.shape.str(), rank));
}

void require_same_layout(const TensorDesc& a, const TensorDesc& b) {
  if (a.layout_or_row_major() == b.layout_or_row_major()) return;
  throw UsageError(
      fmt::format("layouts {} and {} differ", a.layout_or_row_major().str(), b.layout_or_row_major().str()));
}

void require_layouts(LayoutRule rule, const KernelIo& io) {
  if (rule == LayoutRule::by_kernel) return;
  for (const auto* side : {&io.inputs, &io.outputs}) {
    for (const TensorDesc& desc : *side) require_row_major(desc);
  }
}

void rethrow_for(std::string_view op) {
  try {
    throw;
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{}: {}", op, error.what()));
  }
}

}  // namespace lockstep::kernels
