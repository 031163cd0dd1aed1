#include "tests/ops/conformance.h"

#include <cmath>

#include "tests/ops/layer_run.h"
#include "tests/parity/golden.h"

namespace lockstep::ops {
namespace {

using nlohmann::json;

/// Half a unit of the last place of numbers up to 4, once for what goes in and once for what comes out.
double rounding_of(DType dtype) {
  if (dtype == DType::bf16) return 8 * std::ldexp(1.0, -8);
  return dtype == DType::f16 ? 8 * std::ldexp(1.0, -11) : 0;
}

std::int64_t vocab_of(const Conformance& op, std::size_t operand) {
  return operand < op.vocab.size() ? op.vocab[operand] : 0;
}

kernels::Types types_of(const Conformance& op, const std::vector<Shape>& inputs, DType dtype) {
  kernels::Types types;
  for (const Shape& shape : inputs) {
    types.push_back({vocab_of(op, types.size()) == 0 ? dtype : DType::i64, shape});
  }
  return types;
}

Values random_tokens(const Shape& shape, std::int64_t vocab, unsigned seed) {
  Values tokens = kernels::test::random_values(shape, seed);
  for (double& token : tokens.data) token = std::floor((token + 1) / 2 * static_cast<double>(vocab + 1)) - 1;
  return tokens;
}

void check_numbers(const Conformance& op, const std::vector<Shape>& inputs, DType dtype) {
  LayerRun layer(op.layer, types_of(op, inputs, dtype));
  std::vector<Values> operands;
  for (const Shape& shape : layer.operand_shapes()) {
    const std::int64_t vocab = vocab_of(op, operands.size());
    const unsigned seed = static_cast<unsigned>(operands.size()) + 1;
    operands.push_back(vocab == 0 ? kernels::test::random_values(shape, seed)
                                  : random_tokens(shape, vocab, seed));
  }
  const Values dy = kernels::test::random_values(layer.output_shape(), 77);
  const LayerResult got = layer.run(operands, dy);
  const double tolerance = op.tolerance + rounding_of(dtype);
  INFO("y in " << name_of(dtype));
  require_close(got.y, op.reference(operands), tolerance);
  for (std::size_t which = 0; which < operands.size(); ++which) {
    if (vocab_of(op, which) != 0) continue;
    INFO("gradient of " << op.operands.at(which) << " in " << name_of(dtype));
    require_gradient(got.gradients[which], op.reference, operands, which, dy, tolerance);
  }
}

/// dy of a golden, as its formula gives it.
Values formula_gradient(const std::string& golden, const Shape& shape) {
  const std::vector<float> floats = parity::InputSpec{.shape = shape}.floats(golden + "/dy");
  return {shape, {floats.begin(), floats.end()}};
}

Values formula_values(const std::string& name, const parity::InputSpec& spec) {
  if (spec.is_integer()) {
    const std::vector<std::int64_t> tokens = spec.integers(name);
    return {spec.shape, {tokens.begin(), tokens.end()}};
  }
  const std::vector<float> floats = spec.floats(name);
  return {spec.shape, {floats.begin(), floats.end()}};
}

void check_golden(const json& golden, const std::string& tensor, const Values& got) {
  const std::vector<float> floats(got.data.begin(), got.data.end());
  CHECK(parity::difference(tensor, golden.at("outputs").at(tensor).get<parity::GoldenTensor>(), floats) ==
        "");
}

void check_golden(const Conformance& op, const json& golden) {
  const auto name = golden.at("name").get<std::string>();
  INFO("golden " << name);
  const std::size_t inputs = op.shapes.front().size();
  std::vector<Values> operands;
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const auto spec = golden.at("inputs").at(op.operands[i]).get<parity::InputSpec>();
    operands.push_back(formula_values(name + "/" + op.operands[i], spec));
    if (i < inputs) shapes.push_back(spec.shape);
  }
  LayerRun layer(op.layer, types_of(op, shapes, DType::f32));
  const LayerResult got = layer.run(operands, formula_gradient(name, layer.output_shape()));
  check_golden(golden, "y", got.y);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (vocab_of(op, i) == 0) check_golden(golden, "d" + op.operands[i], got.gradients[i]);
  }
}

}  // namespace

void conform(const Conformance& op) {
  for (const std::vector<Shape>& shapes : op.shapes) {
    for (const DType dtype : op.dtypes) {
      const bool on_cpu = kernels::test::device().is_cpu();
      if (dtype == DType::f16 && on_cpu) continue;  // GPUs compute in it, the CPU takes bf16
      INFO(op.name << " of " << shapes.front().str());
      check_numbers(op, shapes, dtype);
    }
  }
  int goldens = 0;
  for (const json& golden : parity::load_cases("layers")) {
    if (!golden.at("name").get<std::string>().starts_with(op.name + "/")) continue;
    ++goldens;
    check_golden(op, golden);
  }
  INFO("goldens of " << op.name << ": tests/parity/golden_layers.py makes them");
  CHECK(goldens > 0);
}

}  // namespace lockstep::ops
