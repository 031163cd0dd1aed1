#include "kernels/pointwise.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "kernels/base/error.h"
#include "kernels/pointwise_functions.h"

namespace lockstep::kernels {
namespace {

struct Traits {
  std::string_view name;
  bool unary;
  bool keeps_zero;
};

constexpr Traits traits[] = {
#define LOCKSTEP_UNARY(Function, name) {#name, true, pointwise::Function::keeps_zero},
#define LOCKSTEP_BINARY(Function, name) {#name, false, pointwise::Function::keeps_zero},
#include "kernels/pointwise.def"
};

const Traits& traits_of(const Pointwise::Step& step) {
  return traits[static_cast<std::size_t>(step.function)];
}

bool broadcasts(const KernelIo& io) {
  return std::ranges::any_of(io.inputs,
                             [&](const TensorDesc& in) { return in.shape != io.outputs.front().shape; });
}

bool is_padded(const Layout& layout, const Shape& shape) {
  return layout.padded != shape;
}

/// Of an operand along the axes of the full shape.
Shape broadcast_strides(const TensorDesc& in, const Shape& full) {
  Shape strides = full;
  const Layout layout = in.layout_or_row_major();
  const std::size_t missing = full.rank() - in.shape.rank();
  for (std::size_t axis = 0; axis < full.rank(); ++axis) {
    const bool repeated = axis < missing || in.shape[axis - missing] != full[axis];
    strides[axis] = repeated ? 0 : layout.strides[axis - missing];
  }
  return strides;
}

/// The walk with its axes in the order of falling strides of the output, those of extent 1 left out.
PointwiseWalk ordered_walk(const KernelIo& io) {
  const TensorDesc& out = io.outputs.front();
  const Layout layout = out.layout_or_row_major();
  if (!layout.blocks.empty() || is_padded(layout, out.shape)) {
    throw UsageError("pointwise: " + layout.str() + " cannot be broadcast to; make it row-major");
  }
  std::vector<std::size_t> order(out.shape.rank());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](std::size_t axis) { return layout.strides[axis]; });
  std::erase_if(order, [&](std::size_t axis) { return out.shape[axis] == 1; });
  if (order.size() > PointwiseWalk::most_axes) throw UsageError("pointwise: too many dimensions");
  PointwiseWalk walk;
  walk.axes = order.size();
  for (std::size_t i = 0; i < order.size(); ++i) {
    walk.extents[i] = out.shape[order[i]];
    walk.out_strides[i] = layout.strides[order[i]];
    for (std::size_t in = 0; in < io.inputs.size(); ++in) {
      walk.in_strides[in][i] = broadcast_strides(io.inputs[in], out.shape)[order[i]];
    }
  }
  return walk;
}

/// Whether axis `at` is the run of the one inside it, repeated without a gap.
bool joins_next(const PointwiseWalk& walk, std::size_t at, std::size_t inputs) {
  const auto continues = [&](const auto& strides) {
    return strides[at] == strides[at + 1] * walk.extents[at + 1];
  };
  return continues(walk.out_strides) &&
         std::all_of(walk.in_strides.begin(), walk.in_strides.begin() + static_cast<std::ptrdiff_t>(inputs),
                     continues);
}

void join_axes(PointwiseWalk& walk, std::size_t inputs) {
  for (std::size_t at = walk.axes; at-- > 1;) {
    const std::size_t outer = at - 1;
    if (!joins_next(walk, outer, inputs)) continue;
    walk.extents[outer] *= walk.extents[at];
    const auto take_inner = [&](auto& strides) {
      strides[outer] = strides[at];
      std::copy(strides.begin() + static_cast<std::ptrdiff_t>(at) + 1, strides.end(),
                strides.begin() + static_cast<std::ptrdiff_t>(at));
    };
    take_inner(walk.out_strides);
    for (std::size_t in = 0; in < inputs; ++in) take_inner(walk.in_strides[in]);
    std::copy(walk.extents.begin() + static_cast<std::ptrdiff_t>(at) + 1, walk.extents.end(),
              walk.extents.begin() + static_cast<std::ptrdiff_t>(at));
    --walk.axes;
  }
}

PointwiseWalk flat_walk(std::int64_t elements) {
  PointwiseWalk walk;
  walk.axes = 1;
  walk.extents[0] = elements;
  walk.out_strides[0] = 1;
  for (auto& strides : walk.in_strides) strides[0] = 1;
  return walk;
}

}  // namespace

std::size_t Pointwise::Step::operand_count() const {
  return (traits_of(*this).unary ? 1U : 2U) + (part == PointwisePart::value ? 0U : 1U);
}

std::string Pointwise::Step::str() const {
  constexpr std::string_view endings[] = {"", "_backward", "_backward_b"};
  return std::string(traits_of(*this).name).append(endings[static_cast<std::size_t>(part)]);
}

Pointwise Pointwise::single(PointwiseFunction function, PointwisePart part) {
  Pointwise op;
  op.steps[0] = {.function = function, .part = part};
  op.inputs = static_cast<std::uint8_t>(op.steps[0].operand_count());
  return op;
}

std::string Pointwise::title() const {
  std::string text;
  for (std::size_t i = 0; i < step_count; ++i) {
    if (i > 0) text += '+';
    text += steps[i].str();
  }
  return text;
}

/// A gradient is a product with dy, which is zero in the padding.
bool Pointwise::keeps_zero() const {
  return std::all_of(steps.begin(), steps.begin() + step_count, [](const Step& step) {
    return step.part != PointwisePart::value || traits_of(step).keeps_zero;
  });
}

Types Pointwise::infer(TypeSpan in) const {
  require_count(in, inputs, inputs);
  TensorType out = in[0];
  for (const TensorType& type : in) {
    require_floats("an input", type);
    require_dtype("an input", type, out.dtype);
    out.shape = broadcast(out.shape, type.shape);
  }
  return Types(output_count, out);
}

Shape broadcast(const Shape& a, const Shape& b) {
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  Shape shape = longer;
  for (std::size_t i = 1; i <= shorter.rank(); ++i) {
    std::int64_t& extent = shape[shape.rank() - i];
    const std::int64_t other = shorter[shorter.rank() - i];
    if (extent == 1) extent = other;
    if (other != 1 && other != extent)
      throw_misfit("shapes " + a.str() + " and " + b.str() + " do not broadcast");
  }
  return shape;
}

std::optional<Pointwise> join(const Pointwise& first, const Pointwise& second,
                              std::span<const Pointwise::Operand> read, std::span<const bool> kept) {
  const auto inputs = first.inputs + std::ranges::count(read, new_input);
  const auto outputs = std::ranges::count(kept.first(first.output_count), true) + second.output_count;
  if (inputs > static_cast<int>(Pointwise::most_inputs) ||
      first.step_count + second.step_count > static_cast<int>(Pointwise::most_steps) ||
      outputs > static_cast<int>(Pointwise::most_outputs)) {
    return std::nullopt;
  }
  Pointwise joined = first;
  std::array<Pointwise::Operand, Pointwise::most_inputs> input_of{};
  for (std::size_t i = 0; i < second.inputs; ++i) {
    input_of[i] = read[i] == new_input ? joined.inputs++ : read[i];
  }
  for (std::size_t i = 0; i < second.step_count; ++i) {
    Pointwise::Step step = second.steps[i];
    for (std::size_t operand = 0; operand < step.operand_count(); ++operand) {
      Pointwise::Operand& at = step.operands[operand];
      const bool is_input = at < Pointwise::most_inputs;
      at = is_input ? input_of[at] : static_cast<Pointwise::Operand>(at + first.step_count);
    }
    joined.steps[joined.step_count++] = step;
  }
  joined.output_count = 0;
  for (std::size_t i = 0; i < first.output_count; ++i) {
    if (kept[i]) joined.outputs[joined.output_count++] = first.outputs[i];
  }
  for (std::size_t i = 0; i < second.output_count; ++i) {
    joined.outputs[joined.output_count++] = static_cast<std::uint8_t>(second.outputs[i] + first.step_count);
  }
  return joined;
}

std::int64_t PointwiseWalk::elements() const {
  return std::accumulate(extents.begin(), extents.begin() + static_cast<std::ptrdiff_t>(axes),
                         std::int64_t{1}, std::multiplies{});
}

bool PointwiseWalk::is_flat() const {
  return axes == 1 && out_strides[0] == 1 &&
         std::ranges::all_of(in_strides, [](const auto& strides) { return strides[0] == 1; });
}

PointwiseWalk pointwise_walk(const KernelIo& io) {
  const Layout layout = io.outputs.front().layout_or_row_major();
  const bool broadcast = broadcasts(io);
  for (const auto* side : {&io.inputs, &io.outputs}) {
    for (const TensorDesc& desc : *side) {
      const bool full = desc.shape == io.outputs.front().shape;
      const Layout have = desc.layout_or_row_major();
      if (have == (full ? layout : Layout::row_major(desc.shape))) continue;
      throw UsageError("pointwise: layouts " + layout.str() + " and " + have.str() + " differ");
    }
  }
  if (!broadcast) return flat_walk(layout.span());
  PointwiseWalk walk = ordered_walk(io);
  if (walk.axes == 0) return flat_walk(1);
  join_axes(walk, io.inputs.size());
  return walk;
}

void choose_pointwise_layouts(const Pointwise& op, KernelIo& io) {
  const Shape& full = io.outputs.front().shape;
  Layout layout = Layout::row_major(full);
  for (const TensorDesc& in : io.inputs) {
    if (in.shape != full) continue;
    layout = in.layout_or_row_major();
    break;
  }
  const std::int64_t span = layout.span();
  const bool dense = layout.blocks.empty() && !is_padded(layout, full) && span == full.elements();
  const bool repeats = span < full.elements();  // as an expanded view does
  const bool usable = dense || (!broadcasts(io) && op.keeps_zero() && !repeats);
  if (!usable) layout = Layout::row_major(full);
  for (auto* side : {&io.inputs, &io.outputs}) {
    for (TensorDesc& desc : *side) desc.layout = desc.shape == full ? layout : Layout::row_major(desc.shape);
  }
}

}  // namespace lockstep::kernels
