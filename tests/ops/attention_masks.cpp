// Attention with keys that are masked, and with dropout: operands that are no floating-point numbers.
#include <cmath>

#include "kernels/base/error.h"
#include "model/define_op.h"
#include "tests/ops/attention_case.h"

namespace lockstep::ops {

TEST_CASE("attention: keys whose token is -1 are not seen") {
  check({.op = {.heads = 2, .masked = true, .scale = 0.5},
         .q = {3, 6, 10},
         .k = {3, 9, 10},
         .tokens = padded_tokens(3, 9, {9, 4, 1})});
  check({.op = {.heads = 1, .causal = true, .masked = true, .scale = 0.5},
         .q = {2, 140, 8},
         .k = {2, 140, 8},
         .tokens = padded_tokens(2, 140, {131, 30})});
  std::vector<std::int64_t> in_the_middle(150, 3);
  for (std::size_t at = 0; at < 150; at += 3) in_the_middle[at] = -1;
  check({.op = {.heads = 1, .masked = true, .scale = 0.5},
         .q = {1, 5, 8},
         .k = {1, 150, 8},
         .tokens = in_the_middle});
}

TEST_CASE("attention: a query that sees no key gives zeros, and gradients of zero") {
  // Of the second sample no key is seen; of the first, causal, the first three queries see none.
  std::vector<std::int64_t> tokens = padded_tokens(2, 6, {6, 0});
  for (std::size_t at = 0; at < 3; ++at) tokens[at] = -1;
  const AttentionCase c{.op = {.heads = 2, .causal = true, .masked = true, .scale = 1},
                        .q = {2, 6, 8},
                        .k = {2, 6, 8},
                        .tokens = tokens};
  check(c);
  const std::vector<Values> got = run(c);
  for (std::size_t i = 0; i < 3 * 8; ++i) CHECK(got[0].data[i] == 0);
  for (std::size_t i = 6 * 8; i < 12 * 8; ++i) {
    for (const Values& values : got) CHECK(values.data[i] == 0);
  }
}

TEST_CASE("attention: a query of which all scores are NaN gives NaN, not what one without keys gives") {
  const AttentionCase c{
      .op = {.heads = 1, .causal = true, .scale = 0.25}, .q = {1, 70, 16}, .k = {1, 70, 16}};
  std::vector<Values> operands = c.operands();
  operands[0].data[40 * 16] = NAN;
  const std::vector<Values> got = run(c, operands, c.dy());
  for (std::size_t i = 0; i < got[0].data.size(); ++i) CHECK(std::isnan(got[0].data[i]) == (i / 16 == 40));
}

TEST_CASE("attention: probabilities are dropped by sample, head, query and key") {
  check({.op = {.heads = 2, .scale = 0.5, .p = 0.3, .stream = 12}, .q = {2, 5, 12}, .k = {2, 7, 12}});
  check({.op = {.heads = 1, .causal = true, .masked = true, .scale = 0.5, .p = 0.1, .stream = 12},
         .q = {1, 140, 8},
         .k = {1, 140, 8},
         .tokens = padded_tokens(1, 140, {133})});
}

TEST_CASE("attention: the layer in a graph") {
  model::Graph graph;
  graph.training = true;
  const auto input = [&](const Shape& shape, DType dtype = DType::f32) {
    return Tensor(graph, graph.add_value("x", {dtype, shape}, model::Role::input));
  };
  const Tensor qkv = input({2, 5, 24});
  CHECK(attention(qkv, {.heads = 4}).shape() == Shape{2, 5, 8});
  const Attention* op = graph.nodes().back().op->as<Attention>();
  REQUIRE(op != nullptr);
  CHECK(op->scale == 1 / std::sqrt(2.0));
  CHECK(op->p == 0);
  attention(qkv, {.heads = 4, .dropout = 0.25});
  attention(qkv, {.heads = 4, .dropout = 0.25});
  const auto& nodes = graph.nodes();
  op = nodes.back().op->as<Attention>();
  CHECK(op->p == 0.25);
  CHECK(op->stream != nodes[nodes.size() - 2].op->as<Attention>()->stream);
  graph.training = false;
  attention(qkv, {.heads = 4, .dropout = 0.25});
  CHECK(graph.nodes().back().op->as<Attention>()->p == 0);
  const Tensor tokens = input({2, 5}, DType::i64);
  CHECK(attention(qkv, {.heads = 4, .key_tokens = tokens}).shape() == Shape{2, 5, 8});
  CHECK(attention(qkv, {.heads = 4, .causal = true, .positions = tokens}).shape() == Shape{2, 5, 8});
  CHECK(graph.nodes().back().op->as<Attention>()->documents);

  CHECK_THROWS_AS(attention(qkv, {.heads = 5}), UsageError);
  CHECK_THROWS_AS(attention(qkv, {.heads = 0}), UsageError);
  CHECK_THROWS_AS(attention(qkv, {.heads = 4, .dropout = 1}), UsageError);
  CHECK_THROWS_AS(attention(qkv, {.key_tokens = qkv}), UsageError);
  CHECK_THROWS_AS(attention(qkv, {.heads = 4, .positions = tokens}), UsageError);
  CHECK_THROWS_AS(attention(qkv, {.causal = true, .positions = input({2, 6}, DType::i64)}), UsageError);
  CHECK_THROWS_AS(attention(input({2, 5, 8}), input({2, 6, 16}), {.causal = true, .positions = tokens}),
                  UsageError);
  CHECK_THROWS_AS(attention(input({2, 5, 8}), input({2, 6, 8}), input({2, 7, 8}), {}), UsageError);
  CHECK_THROWS_AS(attention(input({2, 5, 8}), input({3, 5, 16}), {}), UsageError);
  CHECK_THROWS_AS(attention(input({5, 24}), {}), UsageError);
}

}  // namespace lockstep::ops
