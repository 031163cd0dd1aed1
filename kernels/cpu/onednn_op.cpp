#include "kernels/cpu/onednn_op.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "kernels/base/error.h"

namespace lockstep::kernels {
namespace {

using Role = OnednnOp::Role;

/// What an implementation's name says of its speed. `tiles` are AMX's products of matrices.
enum class Kind { reference, gemm, generated, tiles };

struct Implementation {
  dnnl::primitive_desc_base description;
  Kind kind;
};

/// Which operands may take the layout that the primitive likes best.
struct Freedom {
  bool weights;
  bool activations;
};
/// From nothing to reorder to everything; an earlier one wins among implementations of equal kind.
constexpr Freedom freedoms[] = {{false, false}, {true, false}, {false, true}, {true, true}};

/// `f32`: a processor without arithmetic on bf16, or with a slower one, takes the operands as f32, which the
/// kernel's reorders widen before and round after.
enum class Arithmetic { native, f32 };

const TensorDesc& tensor(const KernelIo& io, std::size_t i) {
  return i < io.inputs.size() ? io.inputs[i] : io.outputs[i - io.inputs.size()];
}
TensorDesc& tensor(KernelIo& io, std::size_t i) {
  return i < io.inputs.size() ? io.inputs[i] : io.outputs[i - io.inputs.size()];
}

Kind kind_of(const dnnl::primitive_desc_base& description) {
  const std::string_view name = description.impl_info_str();
  if (name.find("ref") != std::string_view::npos) return Kind::reference;
  if (name.find("amx") != std::string_view::npos) return Kind::tiles;
  return name.find("gemm:") != std::string_view::npos ? Kind::gemm : Kind::generated;
}

std::string shapes(const KernelIo& io) {
  std::string text;
  for (std::size_t i = 0; i < io.inputs.size() + io.outputs.size(); ++i) {
    text += (i == 0 ? "" : i == io.inputs.size() ? " -> " : ", ") + tensor(io, i).shape.str();
  }
  return text;
}

std::optional<dnnl::memory::desc> operand_desc(const OnednnOp::Operand& operand,
                                               const TensorDesc& tensor_desc, Freedom freedom,
                                               Arithmetic arithmetic) {
  const DType dtype = arithmetic == Arithmetic::f32 ? DType::f32 : tensor_desc.dtype;
  const bool free = (operand.role == Role::weights && freedom.weights) ||
                    (operand.role == Role::activation && freedom.activations);
  const bool open = !tensor_desc.layout && operand.role != Role::vector;
  if (free || open) return onednn::any_layout(tensor_desc.shape, dtype, operand.groups);
  return onednn::descriptor(tensor_desc.shape, tensor_desc.layout_or_row_major(), dtype, operand.groups);
}

std::optional<Implementation> describe(const dnnl::engine& engine, const OnednnOp& op, const KernelIo& io,
                                       Freedom freedom, Arithmetic arithmetic) {
  onednn::Operands operands;
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const auto desc = operand_desc(op.operands[i], tensor(io, i), freedom, arithmetic);
    if (!desc) return std::nullopt;
    operands.*op.operands[i].place = *desc;
  }
  try {
    const dnnl::primitive_desc_base description = op.describe(engine, operands);
    return Implementation{description, kind_of(description)};
  } catch (const dnnl::error&) {
    return std::nullopt;
  }
}

std::optional<Implementation> best(const dnnl::engine& engine, const OnednnOp& op, const KernelIo& io,
                                   Arithmetic arithmetic) {
  const Kind fastest =
      tensor(io, 0).dtype == DType::bf16 && arithmetic == Arithmetic::native && onednn::multiplies_by_amx()
          ? Kind::tiles
          : Kind::generated;
  std::optional<Implementation> implementation;
  for (const Freedom freedom : freedoms) {
    std::optional<Implementation> next = describe(engine, op, io, freedom, arithmetic);
    if (next && (!implementation || next->kind > implementation->kind)) implementation = std::move(next);
    if (implementation && implementation->kind >= fastest) break;
  }
  return implementation;
}

std::optional<Implementation> best(const dnnl::engine& engine, const OnednnOp& op, const KernelIo& io) {
  if (tensor(io, 0).dtype == DType::f32) return best(engine, op, io, Arithmetic::native);
  const bool widened = op.compute_bound && !onednn::multiplies_bf16_faster();
  const Arithmetic first = widened ? Arithmetic::f32 : Arithmetic::native;
  std::optional<Implementation> implementation = best(engine, op, io, first);
  return implementation ? std::move(implementation)
                        : best(engine, op, io, widened ? Arithmetic::native : Arithmetic::f32);
}

Implementation best_or_throw(const dnnl::engine& engine, const OnednnOp& op, const KernelIo& io) {
  std::optional<Implementation> implementation = best(engine, op, io);
  if (!implementation) throw DeviceError(fmt::format("{}: oneDNN cannot compute {}", op.name, shapes(io)));
  return *std::move(implementation);
}

}  // namespace

void choose_onednn_layouts(const onednn::Context& context, const OnednnOp& op, KernelIo& io) {
  const Implementation implementation = best_or_throw(context.engine, op, io);
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const auto& [argument, place, role, groups] = op.operands[i];
    TensorDesc& desc = tensor(io, i);
    if (role == Role::weights && desc.layout) continue;
    const dnnl::memory::desc wanted = implementation.description.query_md(dnnl::query::exec_arg_md, argument);
    desc.layout = onednn::layout_of(wanted, desc.shape, groups).value_or(Layout::row_major(desc.shape));
  }
}

KernelPtr kernel_of(const onednn::Context& context, const OnednnOp& op, const KernelIo& io) {
  KernelIo fixed = io;
  std::vector<OnednnArgument> arguments;
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    TensorDesc& desc = tensor(fixed, i);
    desc.layout = desc.layout_or_row_major();
    const auto given = onednn::descriptor(desc.shape, *desc.layout, desc.dtype, op.operands[i].groups);
    if (!given) {
      throw UsageError(fmt::format("{}: oneDNN has no layout {} for {}; use the row-major one", op.name,
                                   desc.layout->str(), desc.shape.str()));
    }
    arguments.push_back({op.operands[i].argument, i < io.inputs.size(), *given});
  }
  const Implementation implementation = best_or_throw(context.engine, op, fixed);
  try {
    return onednn_kernel(context, implementation.description, arguments);
  } catch (const dnnl::error& error) {
    throw DeviceError(fmt::format("{} of {}: oneDNN: {}", op.name, shapes(io), error.what()));
  }
}

bool available(const onednn::Context& context, const OnednnOp& op, const KernelIo& io) {
  const std::optional<Implementation> implementation = best(context.engine, op, io);
  return implementation && implementation->kind != Kind::reference;
}

bool generates(const onednn::Context& context, const OnednnOp& op, const KernelIo& io) {
  const std::optional<Implementation> implementation = best(context.engine, op, io, Arithmetic::native);
  return implementation && implementation->kind >= Kind::generated;
}

}  // namespace lockstep::kernels
