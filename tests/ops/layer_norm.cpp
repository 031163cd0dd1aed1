#include <omp.h>

#include <cmath>

#include "kernels/layer_norm.h"
#include "model/define_op.h"
#include "tests/ops/conformance.h"
#include "tests/ops/layer_run.h"

namespace lockstep::ops {
namespace {

/// Of x, weight and perhaps bias.
Values normalised(const std::vector<Values>& in, double eps) {
  Values y = in[0];
  const std::size_t columns = in[1].data.size();
  const auto count = static_cast<double>(columns);
  for (std::size_t row = 0; row < y.data.size(); row += columns) {
    double mean = 0;
    for (std::size_t k = 0; k < columns; ++k) mean += y.data[row + k] / count;
    double variance = 0;
    for (std::size_t k = 0; k < columns; ++k) variance += std::pow(y.data[row + k] - mean, 2) / count;
    for (std::size_t k = 0; k < columns; ++k) {
      double& value = y.data[row + k];
      value = (value - mean) / std::sqrt(variance + eps) * in[1].data[k];
      if (in.size() > 2) value += in[2].data[k];
    }
  }
  return y;
}

Values reference(const std::vector<Values>& in) {
  return normalised(in, 1e-5);
}

Tensor norm(const std::vector<Tensor>& in) {
  return layer_norm(in[0], "norm");
}

void check_same_bits(LayerRun& fused, LayerRun& apart) {
  std::vector<Values> operands;
  for (const Shape& of : fused.operand_shapes())
    operands.push_back(kernels::test::random_values(of, static_cast<unsigned>(operands.size()) + 1));
  const Values dy = kernels::test::random_values(fused.output_shape(), 77);
  const LayerResult by_one = fused.run(operands, dy);
  const LayerResult by_several = apart.run(operands, dy);
  CHECK(by_one.y.data == by_several.y.data);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    INFO("gradient " << i);
    CHECK(by_one.gradients[i].data == by_several.gradients[i].data);
  }
}

}  // namespace

TEST_CASE("layer_norm") {
  conform({.name = "layer_norm",
           .layer = norm,
           .reference = reference,
           .operands = {"x", "weight", "bias"},
           .shapes = {{{1, 17}}, {{5, 1}}, {{17}}, {{2, 3, 17}}, {{67, 768}}, {{3, 1025}}, {{2, 2048}}},
           .tolerance = 2e-5});
}

TEST_CASE("layer_norm of rows whose sums a GPU's shared memory is too small for") {
  const std::int64_t columns = kernels::LayerNormBackward::gpu_longest_summed;
  conform({.name = "layer_norm",
           .layer = norm,
           .reference = reference,
           .operands = {"x", "weight", "bias"},
           .shapes = {{{5, columns}}, {{5, columns + 1}}, {{2, columns + 4}}},
           .tolerance = 4e-5});
}

TEST_CASE("layer_norm of three columns") {
  conform({.name = "layer_norm_short",
           .layer = norm,
           .reference = reference,
           .operands = {"x", "weight", "bias"},
           .shapes = {{{1, 3}}, {{7, 3}}},
           .tolerance = 1e-4});  // of the differences: three numbers may lie close, the slope is steep
}

TEST_CASE("layer_norm without bias") {
  conform({.name = "layer_norm_without_bias",
           .layer = [](const std::vector<Tensor>& in) { return layer_norm(in[0], "norm", {.bias = false}); },
           .reference = reference,
           .operands = {"x", "weight"},
           .shapes = {{{1, 17}}, {{3, 1028}}},
           .tolerance = 2e-5});
}

TEST_CASE("layer_norm with an epsilon of its own") {
  conform({.name = "layer_norm_eps",
           .layer = [](const std::vector<Tensor>& in) { return layer_norm(in[0], "norm", {.eps = 0.5}); },
           .reference = [](const std::vector<Values>& in) { return normalised(in, 0.5); },
           .operands = {"x", "weight", "bias"},
           .shapes = {{{1, 1}}, {{6, 9}}},
           .tolerance = 2e-5});
}

// The fused op: an add and the norm of its result, which other nodes read too (pre-norm), or not (post-norm).
TEST_CASE("layer_norm with a residual") {
  const auto total = [](const std::vector<Values>& in) {
    Values sum = in[0];
    for (std::size_t i = 0; i < sum.data.size(); ++i) sum.data[i] += in[1].data[i];
    return sum;
  };
  const std::vector<std::vector<Shape>> shapes{
      {{1, 17}, {1, 17}}, {{2, 3, 17}, {2, 3, 17}}, {{67, 64}, {67, 64}}, {{3, 1025}, {3, 1025}}};
  conform({.name = "layer_norm_residual",
           .layer =
               [](const std::vector<Tensor>& in) {
                 const Tensor both = add(in[0], in[1]);
                 return mul(layer_norm(both, "norm"), both);
               },
           .reference =
               [=](const std::vector<Values>& in) {
                 const Values both = total(in);
                 Values y = reference({both, in[2], in[3]});
                 for (std::size_t i = 0; i < y.data.size(); ++i) y.data[i] *= both.data[i];
                 return y;
               },
           .operands = {"x", "residual", "weight", "bias"},
           .shapes = shapes,
           .tolerance = 5e-5});
  const LayerRun::Layer post_norm = [](const std::vector<Tensor>& in) {
    return layer_norm(add(in[0], in[1]), "norm");
  };
  conform({.name = "layer_norm_post",
           .layer = post_norm,
           .reference =
               [=](const std::vector<Values>& in) {
                 return reference({total(in), in[2], in[3]});
               },
           .operands = {"x", "residual", "weight", "bias"},
           .shapes = shapes,
           .tolerance = 2e-5});
  CHECK(LayerRun(post_norm, shapes.front(), DType::f32).node_count() == 2);
}

// What mixed precision makes of it: the casts are the kernel's, which rounds where they did.
TEST_CASE("layer_norm: a residual, a result and gradients in half types have the bits of casts") {
  const DType half = GENERATE(DType::bf16, DType::f16);
  if (half == DType::f16 && kernels::test::device().is_cpu()) return;
  const Shape shape = GENERATE(Shape{2, 3, 17}, Shape{67, 768}, Shape{3, 1025}, Shape{2, 2048});
  const bool branch_first = GENERATE(false, true);
  const bool rounds_result = GENERATE(false, true);
  INFO(name_of(half) << ' ' << shape.str() << (branch_first ? " branch + x" : " x + branch"));
  const LayerRun::Layer layer = [=](const std::vector<Tensor>& in) {
    const Tensor branch = cast(in[1], DType::f32);
    const Tensor total = branch_first ? add(branch, in[0]) : add(in[0], branch);
    const Tensor y = layer_norm(total, "norm");
    return mul(rounds_result ? cast(cast(y, half), DType::f32) : y, total);
  };
  const kernels::Types inputs{{DType::f32, shape}, {half, shape}};
  LayerRun fused(layer, inputs);
  LayerRun apart(layer, inputs, false);
  // The add and the cast, their like in backward; the cast of y and of its gradient.
  CHECK(apart.node_count() - fused.node_count() == (rounds_result ? 6U : 4U));
  check_same_bits(fused, apart);
}

// What a block of a transformer in mixed precision is between its products.
TEST_CASE("layer_norm: a residual with dropout has the bits of a dropout of its own") {
  const DType half = GENERATE(DType::bf16, DType::f16);
  if (half == DType::f16 && kernels::test::device().is_cpu()) return;
  const Shape shape = GENERATE(Shape{2, 3, 20}, Shape{67, 768}, Shape{2, 11, 1028}, Shape{2, 3, 2, 64});
  const bool pre_norm = GENERATE(false, true);
  const bool rounds_result = GENERATE(false, true);
  INFO(name_of(half) << ' ' << shape.str() << (pre_norm ? " pre-norm" : " post-norm"));
  const LayerRun::Layer layer = [=](const std::vector<Tensor>& in) {
    const Tensor total = add(in[0], cast(dropout(in[1], 0.3), DType::f32));
    const Tensor norm = layer_norm(total, "norm");
    const Tensor y = rounds_result ? cast(cast(norm, half), DType::f32) : norm;
    return pre_norm ? mul(y, total) : y;
  };
  const kernels::Types inputs{{DType::f32, shape}, {half, shape}};
  LayerRun fused(layer, inputs);
  LayerRun apart(layer, inputs, false);
  CHECK(fused.node_count() < apart.node_count());
  check_same_bits(fused, apart);
}

TEST_CASE("layer_norm: its statistics, which nobody uses, get no gradient") {
  model::Graph graph;
  const Tensor x(graph, graph.add_value("x", {DType::f32, {4, 6}}, model::Role::input));
  const Tensor y = layer_norm(x, "norm");
  const model::ValueId dy = graph.add_value("dy", {DType::f32, {4, 6}}, model::Role::input);
  std::vector<model::ValueId> gradients(graph.value_count(), model::no_value);
  gradients[static_cast<std::size_t>(y.id())] = dy;
  const model::Node node = graph.nodes().back();  // a copy: the graph grows meanwhile
  const std::vector<bool> needed(graph.value_count(), true);
  model::Backward backward(graph, node, gradients, needed);
  node.op->differentiate(backward);
  REQUIRE(graph.nodes().size() == 2);
  CHECK(graph.nodes().back().op->name() == "layer_norm_backward");
}

TEST_CASE("layer_norm: rows of one number each have it as their mean, and nothing is left of them") {
  using Op = kernels::LayerNorm;
  const std::int64_t columns = GENERATE(768, 1024, 4096);
  const std::int64_t rows = 32;
  Values x{{rows, columns}, {}};
  for (std::int64_t row = 0; row < rows; ++row) {
    const float number = 900 + 6.2357F * static_cast<float>(row);
    x.data.insert(x.data.end(), static_cast<std::size_t>(columns), static_cast<double>(number));
  }
  const Values weight{{columns}, std::vector<double>(static_cast<std::size_t>(columns), 1)};
  const auto got =
      kernels::test::run(Op{}, {x, weight}, {x.shape, {rows}, {rows}}, kernels::test::Layouts::row_major);
  for (const double y : got[Op::y].data) REQUIRE(y == 0);
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
    REQUIRE(got[Op::mean].data[row] == x.data[row * static_cast<std::size_t>(columns)]);
    REQUIRE(got[Op::rstd].data[row] == Approx(1 / std::sqrt(1e-5)).epsilon(0.01));
  }
}

TEST_CASE("layer_norm: the same bits from any team") {
  LayerRun layer(norm, {{131, 768}}, DType::f32);
  std::vector<Values> operands;
  for (const Shape& shape : layer.operand_shapes()) {
    operands.push_back(kernels::test::random_values(shape, static_cast<unsigned>(operands.size()) + 1));
  }
  const Values dy = kernels::test::random_values(layer.output_shape(), 77);
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

}  // namespace lockstep::ops
