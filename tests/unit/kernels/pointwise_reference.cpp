#include "tests/unit/kernels/pointwise_reference.h"

#include <algorithm>
#include <cmath>

#include "kernels/pointwise_functions.h"

namespace lockstep::kernels::test {
namespace {

struct DoubleMath {
  static double exp(double x) { return std::exp(x); }
  static double exp_or_zero(double x) { return std::exp(x); }
  static double tanh(double x) { return std::tanh(x); }
  static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
  static double erf(double x) { return std::erf(x); }
  static double rsqrt(double x) { return 1 / std::sqrt(x); }
};

template <class Function>
double unary(PointwisePart part, double a, double b) {
  return part == PointwisePart::value ? Function::template value<DoubleMath>(a)
                                      : Function::template gradient<DoubleMath>(a, b);
}

template <class Function>
double binary(PointwisePart part, double a, double b, double c) {
  if (part == PointwisePart::value) return Function::template value<DoubleMath>(a, b);
  return part == PointwisePart::gradient ? Function::template gradient_a<DoubleMath>(a, b, c)
                                         : Function::template gradient_b<DoubleMath>(a, b, c);
}

/// Row-major element `n` of the full shape, as an operand that is broadcast to it has it.
double element(const Values& values, const Shape& full, std::int64_t n) {
  std::int64_t at = 0;
  std::int64_t stride = 1;
  for (std::size_t axis = full.rank(); axis-- > 0; n /= full[axis]) {
    const std::size_t missing = full.rank() - values.shape.rank();
    if (axis < missing) break;
    const std::int64_t extent = values.shape[axis - missing];
    if (extent != 1) at += n % full[axis] * stride;
    stride *= extent;
  }
  return values.data[static_cast<std::size_t>(at)];
}

/// Half of the distance between two numbers of the dtype, relative to them.
double half_a_place(DType dtype) {
  return dtype == DType::bf16 ? 0x1p-8 : dtype == DType::f16 ? 0x1p-11 : 0x1p-24;
}

}  // namespace

double pointwise_step(const Pointwise::Step& step, double a, double b, double c) {
  switch (step.function) {
#define LOCKSTEP_UNARY(Function, name) \
  case PointwiseFunction::name:        \
    return unary<pointwise::Function>(step.part, a, b);
#define LOCKSTEP_BINARY(Function, name) \
  case PointwiseFunction::name:         \
    return binary<pointwise::Function>(step.part, a, b, c);
#include "kernels/pointwise.def"
  }
  return 0;
}

std::vector<Values> pointwise(const Pointwise& op, const std::vector<Values>& inputs) {
  Shape full = inputs[0].shape;
  for (const Values& input : inputs) full = broadcast(full, input.shape);
  std::vector<Values> outputs(op.output_count, Values{full, {}});
  for (std::int64_t n = 0; n < full.elements(); ++n) {
    std::array<double, Pointwise::most_inputs + Pointwise::most_steps> values{};
    for (std::size_t i = 0; i < op.inputs; ++i) values[i] = element(inputs[i], full, n);
    for (std::size_t i = 0; i < op.step_count; ++i) {
      const auto& operands = op.steps[i].operands;
      values[Pointwise::result_of(i)] =
          pointwise_step(op.steps[i], values[operands[0]], values[operands[1]], values[operands[2]]);
    }
    for (std::size_t i = 0; i < op.output_count; ++i) {
      outputs[i].data.push_back(values[Pointwise::result_of(op.outputs[i])]);
    }
  }
  return outputs;
}

bool gradient_takes_output(PointwiseFunction function) {
  switch (function) {
#define LOCKSTEP_UNARY(Function, name) \
  case PointwiseFunction::name:        \
    return pointwise::Function::gradient_from_output;
#include "kernels/pointwise.def"
    default:
      return false;
  }
}

std::vector<Pointwise> all_single_steps() {
  std::vector<Pointwise> all;
#define LOCKSTEP_UNARY(Function, name)                                    \
  for (const auto part : {PointwisePart::value, PointwisePart::gradient}) \
    all.push_back(Pointwise::single(PointwiseFunction::name, part));
#define LOCKSTEP_BINARY(Function, name)                                                              \
  for (const auto part : {PointwisePart::value, PointwisePart::gradient, PointwisePart::gradient_b}) \
    all.push_back(Pointwise::single(PointwiseFunction::name, part));
#include "kernels/pointwise.def"
  return all;
}

std::vector<DType> pointwise_dtypes() {
  if (device().is_cpu()) return {DType::f32, DType::bf16};
  return {DType::f32, DType::bf16, DType::f16};
}

void require_rounded(const Values& got, const Values& wanted, DType dtype) {
  REQUIRE(got.shape == wanted.shape);
  constexpr double f32_steps = 32 * 0x1p-24;
  for (std::size_t i = 0; i < wanted.data.size(); ++i) {
    const double magnitude = std::abs(wanted.data[i]);
    const double tolerance = half_a_place(dtype) * magnitude + f32_steps * std::max(1.0, magnitude);
    if (!(std::abs(got.data[i] - wanted.data[i]) <= tolerance))
      FAIL("element " << i << " is " << got.data[i] << ", not " << wanted.data[i]);
  }
}

KernelIo pointwise_io(const Pointwise& op, const std::vector<Values>& inputs, DType dtype) {
  KernelIo io;
  for (const Values& input : inputs) io.inputs.push_back({dtype, input.shape, {}});
  for (const TensorType& type : op.infer(types_of(io.inputs))) {
    io.outputs.push_back({type.dtype, type.shape, {}});
  }
  return io;
}

void check_pointwise(const Pointwise& op, const std::vector<Values>& inputs, DType dtype) {
  KernelIo io = pointwise_io(op, inputs, dtype);
  choose_layouts(device(), op, io);
  const auto got = run_prepared(kernel_for(device(), op, io), io, inputs);
  const auto wanted = pointwise(op, inputs);
  INFO(op.title() << " of " << io.inputs[0].type().str());
  for (std::size_t i = 0; i < wanted.size(); ++i) require_rounded(got[i], wanted[i], dtype);
}

}  // namespace lockstep::kernels::test
