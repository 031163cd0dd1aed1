#include "kernels/batch_norm.h"

#include <omp.h>

#include <cmath>

#include "kernels/base/error.h"
#include "tests/ops/conformance.h"
#include "tests/ops/layer_run.h"
#include "tests/support/message_of.h"

namespace lockstep::ops {
namespace {

using kernels::test::random_values;

struct Moments {
  std::vector<double> mean, variance;
};

/// Channel of element i of (N, C, ...).
std::size_t channel_of(const Shape& shape, std::size_t i) {
  return i / static_cast<std::size_t>(shape.elements(2)) % static_cast<std::size_t>(shape[1]);
}

Moments moments_of(const Values& x) {
  const auto channels = static_cast<std::size_t>(x.shape[1]);
  const auto count = static_cast<double>(x.data.size() / channels);
  Moments of{std::vector<double>(channels), std::vector<double>(channels)};
  for (std::size_t i = 0; i < x.data.size(); ++i) of.mean[channel_of(x.shape, i)] += x.data[i] / count;
  for (std::size_t i = 0; i < x.data.size(); ++i) {
    const std::size_t channel = channel_of(x.shape, i);
    of.variance[channel] += std::pow(x.data[i] - of.mean[channel], 2) / count;
  }
  return of;
}

/// Of x, weight and bias.
Values normalised(const Values& x, const Values& weight, const Values& bias, double eps) {
  const Moments of = moments_of(x);
  Values y = x;
  for (std::size_t i = 0; i < y.data.size(); ++i) {
    const std::size_t c = channel_of(x.shape, i);
    y.data[i] = (x.data[i] - of.mean[c]) / std::sqrt(of.variance[c] + eps) * weight.data[c] + bias.data[c];
  }
  return y;
}

Values reference(const std::vector<Values>& in) {
  return normalised(in[0], in[1], in[2], 1e-5);
}

Values reference_tanh(const std::vector<Values>& in) {
  Values y = reference(in);
  for (double& value : y.data) value = std::tanh(value);
  return y;
}

/// Of x, residual, weight and bias.
Values reference_residual(const std::vector<Values>& in) {
  Values y = normalised(in[0], in[2], in[3], 1e-5);
  for (std::size_t i = 0; i < y.data.size(); ++i) y.data[i] += in[1].data[i];
  return y;
}

Tensor norm(const std::vector<Tensor>& in) {
  return batch_norm2d(in[0], "norm");
}

/// Few elements a channel make steep slopes; there are 30 and more here.
constexpr double tolerance = 1e-4;

}  // namespace

TEST_CASE("batch_norm") {
  conform({.name = "batch_norm",
           .layer = norm,
           .reference = reference,
           .operands = {"x", "weight", "bias"},
           .shapes = {{{3, 5, 7, 9}},
                      {{2, 1, 5, 7}},
                      {{33, 24, 1, 1}},
                      {{5, 16, 3, 3}},
                      {{3, 5, 4, 6}},
                      {{2, 3, 40, 40}}},
           .tolerance = tolerance,
           .dtypes = {DType::f32, DType::bf16, DType::f16}});
}

TEST_CASE("batch_norm of rows") {
  conform({.name = "batch_norm_rows",
           .layer = norm,
           .reference = reference,
           .operands = {"x", "weight", "bias"},
           .shapes = {{{33, 16}}, {{33, 17}}, {{40, 1}}, {{67, 130}}, {{70, 264}}},
           .tolerance = tolerance});
}

TEST_CASE("batch_norm with an epsilon of its own") {
  conform({.name = "batch_norm_eps",
           .layer = [](const std::vector<Tensor>& in) { return batch_norm2d(in[0], "norm", {.eps = 0.5}); },
           .reference = [](const std::vector<Values>& in) { return normalised(in[0], in[1], in[2], 0.5); },
           .operands = {"x", "weight", "bias"},
           .shapes = {{{4, 3, 5, 5}}},
           .tolerance = tolerance});
}

TEST_CASE("batch_norm and tanh in one pass") {
  conform({.name = "batch_norm_tanh",
           .layer = [](const std::vector<Tensor>& in) { return tanh(batch_norm2d(in[0], "norm")); },
           .reference = reference_tanh,
           .operands = {"x", "weight", "bias"},
           .shapes = {{{3, 18, 5, 7}}, {{33, 24, 1, 1}}, {{3, 5, 4, 4}}},
           .tolerance = tolerance,
           .dtypes = {DType::f32, DType::bf16, DType::f16}});
}

TEST_CASE("batch_norm and a residual in one pass") {
  conform({.name = "batch_norm_residual",
           .layer = [](const std::vector<Tensor>& in) { return add(batch_norm2d(in[0], "norm"), in[1]); },
           .reference = reference_residual,
           .operands = {"x", "residual", "weight", "bias"},
           .shapes = {{{3, 18, 5, 7}, {3, 18, 5, 7}},
                      {{33, 24, 1, 1}, {33, 24, 1, 1}},
                      {{9, 5, 4, 4}, {9, 5, 4, 4}}},
           .tolerance = tolerance,
           .dtypes = {DType::f32, DType::bf16, DType::f16}});
}

TEST_CASE("batch_norm: what it takes up has the bits of ops of their own") {
  using Layer = LayerRun::Layer;
  const std::pair<int, Layer> arity_and_layer = GENERATE(
      std::pair<int, Layer>(1, [](const auto& in) { return relu(batch_norm2d(in[0], "norm")); }),
      std::pair<int, Layer>(1, [](const auto& in) { return tanh(batch_norm2d(in[0], "norm")); }),
      std::pair<int, Layer>(2, [](const auto& in) { return relu(add(batch_norm2d(in[0], "norm"), in[1])); }),
      std::pair<int, Layer>(2, [](const auto& in) { return add(in[1], batch_norm2d(in[0], "norm")); }),
      std::pair<int, Layer>(
          2, [](const auto& in) { return relu(add(batch_norm2d(in[0], "a"), batch_norm2d(in[1], "b"))); }));
  const Shape shape{3, 18, 5, 7};
  const std::vector<Shape> inputs(static_cast<std::size_t>(arity_and_layer.first), shape);
  LayerRun fused(arity_and_layer.second, inputs, DType::f32);
  LayerRun apart(arity_and_layer.second, inputs, DType::f32, false);
  std::vector<Values> operands;
  for (const Shape& of : fused.operand_shapes()) {
    operands.push_back(random_values(of, static_cast<unsigned>(operands.size()) + 1));
  }
  const Values dy = random_values(shape, 77);
  const LayerResult one = fused.run(operands, dy);
  const LayerResult other = apart.run(operands, dy);
  CHECK(fused.node_count() < apart.node_count());
  CHECK(one.y.data == other.y.data);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    INFO("operand " << i);
    CHECK(one.gradients[i].data == other.gradients[i].data);
  }
}

TEST_CASE("batch_norm: the same bits from any team") {
  LayerRun layer(norm, {{5, 18, 60, 60}}, DType::f32);
  std::vector<Values> operands;
  for (const Shape& shape : layer.operand_shapes()) {
    operands.push_back(random_values(shape, static_cast<unsigned>(operands.size()) + 1));
  }
  const Values dy = random_values(layer.output_shape(), 77);
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  const LayerResult alone = layer.run(operands, dy);
  omp_set_num_threads(3);
  const LayerResult by_three = layer.run(operands, dy);
  omp_set_num_threads(before);
  CHECK(alone.y.data == by_three.y.data);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    CHECK(alone.gradients[i].data == by_three.gradients[i].data);
  }
}

TEST_CASE("batch_norm: a single number a channel has no variance") {
  model::Graph graph;
  graph.training = true;
  const Tensor x(graph, graph.add_value("x", {DType::f32, {1, 4}}, model::Role::input));
  CHECK_THAT(tests::message_of<UsageError>([&] { batch_norm2d(x, "bn1"); }),
             tests::contains("bn1") && tests::contains("a single number"));
}

TEST_CASE("batch_norm: an evaluation is one pass by the running statistics, and moves nothing") {
  model::Graph graph;
  const Tensor x(graph, graph.add_value("x", {DType::f32, {2, 4, 3, 3}}, model::Role::input));
  batch_norm2d(x, "norm");
  REQUIRE(graph.nodes().size() == 1);
  const model::Node& node = graph.nodes()[0];
  CHECK(graph.value(node.inputs[kernels::BatchNorm::mean]).name == "norm.running_mean");
  CHECK(graph.value(node.inputs[kernels::BatchNorm::variance]).name == "norm.running_var");
  CHECK(graph.buffers().size() == 3);
}

}  // namespace lockstep::ops
