#include "kernels/pointwise.h"

#include <algorithm>

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

}  // namespace lockstep::kernels
