// Attention with keys that are masked, and with dropout: operands that are no floating-point numbers.
#include <cmath>

#include "kernels/attention.h"
#include "kernels/base/error.h"
#include "model/define_op.h"
#include "tests/ops/attention_reference.h"
#include "tests/ops/conformance.h"

namespace lockstep::ops {
namespace {

using kernels::Attention;
using kernels::AttentionBackward;
using kernels::StepState;
using kernels::test::device;

using Memories = std::vector<std::unique_ptr<kernels::Memory>>;

/// q, k and v (N, T, columns) with tokens and state as the op wants them.
struct Case {
  Attention op;
  Shape q, k;
  std::vector<std::int64_t> tokens{};
  StepState state{.seed = 5, .global_step = 3, .first_sample = 2, .sample_stride = 3};

  std::vector<Values> operands() const {
    return {kernels::test::random_values(q, 1), kernels::test::random_values(k, 2),
            kernels::test::random_values(k, 3)};
  }
  Values dy() const { return kernels::test::random_values(q, 4); }

  Values reference(const std::vector<Values>& in) const {
    AttentionRules rules{.heads = op.heads, .causal = op.causal, .scale = op.scale};
    if (op.masked) {
      rules.is_masked = [this](std::int64_t n, std::int64_t s) {
        return tokens[static_cast<std::size_t>(n * k[1] + s)] == -1;
      };
    }
    if (op.p > 0) {
      rules.factor = [this](std::int64_t n, std::int64_t h, std::int64_t t, std::int64_t s) {
        const Philox random =
            kernels::attention_random(op.dropout(), state, state.first_sample + n * state.sample_stride, h);
        const PhiloxCounter words = random.block(kernels::dropout_block(t, s / 4));
        const bool dropped = words[static_cast<std::size_t>(s % 4)] < op.dropout().threshold();
        return dropped ? 0.0 : static_cast<double>(op.dropout().scale());
      };
    }
    return attended(in[0], in[1], in[2], rules);
  }
};

kernels::TensorDesc described(DType dtype, const Shape& shape) {
  return {dtype, shape, kernels::Layout::row_major(shape)};
}

template <class Op>
void launch(const Op& op, const kernels::KernelIo& io, const std::vector<const kernels::Memory*>& memories) {
  const auto kernel = kernel_for(device(), op, io);
  std::vector<void*> args;
  for (const kernels::Memory* memory : memories) args.push_back(memory->data());
  const auto workspace = device().allocate(std::max<std::size_t>(kernel->workspace_bytes(), 64));
  const auto stream = device().make_stream();
  kernel->bind(args, workspace->data())->launch(*stream);
  stream->synchronize();
}

/// y, dq, dk, dv.
std::vector<Values> run(const Case& c) {
  const Shape of_rows{c.q[0], c.op.heads, c.q[1]};
  kernels::KernelIo io{{described(DType::f32, c.q), described(DType::f32, c.k), described(DType::f32, c.k)},
                       {described(DType::f32, c.q), described(DType::f32, of_rows)}};
  Memories in;
  for (const Values& values : c.operands())
    in.push_back(kernels::test::pack(values, *described(DType::f32, values.shape).layout));
  if (c.op.masked) {
    in.push_back(kernels::test::upload(c.tokens));
    io.inputs.push_back(described(DType::i64, {c.k[0], c.k[1]}));
  }
  if (c.op.p > 0) {
    in.push_back(kernels::test::upload(std::vector<StepState>{c.state}));
    io.inputs.push_back(described(DType::u8, {sizeof(StepState)}));
  }
  Memories out;
  for (const auto& desc : io.outputs) out.push_back(device().allocate(desc.bytes()));
  std::vector<const kernels::Memory*> args;
  for (const auto& memory : in) args.push_back(memory.get());
  for (const auto& memory : out) args.push_back(memory.get());
  launch(c.op, io, args);

  const auto dy = kernels::test::pack(c.dy(), *io.outputs[0].layout);
  kernels::KernelIo back{{io.outputs[0], io.outputs[0], io.outputs[1]}, {}};
  std::vector<const kernels::Memory*> back_args{dy.get(), out[0].get(), out[1].get()};
  for (std::size_t i = 0; i < in.size(); ++i) {
    back.inputs.push_back(io.inputs[i]);
    back_args.push_back(in[i].get());
  }
  Memories gradients;
  for (std::size_t i = 0; i < 3; ++i) {
    back.outputs.push_back(io.inputs[i]);
    gradients.push_back(device().allocate(io.inputs[i].bytes()));
    back_args.push_back(gradients.back().get());
  }
  launch(AttentionBackward{c.op}, back, back_args);

  std::vector<Values> results{kernels::test::unpack(*out[0], c.q, *io.outputs[0].layout)};
  for (std::size_t i = 0; i < 3; ++i)
    results.push_back(kernels::test::unpack(*gradients[i], io.inputs[i].shape, *io.inputs[i].layout));
  return results;
}

void check(const Case& c) {
  const std::vector<Values> got = run(c);
  const auto reference = [&](const std::vector<Values>& in) { return c.reference(in); };
  require_close(got[0], reference(c.operands()), 2e-5);
  for (std::size_t which = 0; which < 3; ++which) {
    INFO("gradient " << which);
    require_gradient(got[which + 1], reference, c.operands(), which, c.dy(), 5e-5);
  }
}

/// Tokens of `rows` with the last `padded` of row i * stride padded.
std::vector<std::int64_t> padded_tokens(std::int64_t rows, std::int64_t length,
                                        std::vector<std::int64_t> lengths) {
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(rows * length), 7);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t at = lengths[static_cast<std::size_t>(row)]; at < length; ++at)
      tokens[static_cast<std::size_t>(row * length + at)] = -1;
  }
  return tokens;
}

}  // namespace

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
  const Case c{.op = {.heads = 2, .causal = true, .masked = true, .scale = 1},
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

  CHECK_THROWS_AS(attention(qkv, {.heads = 5}), UsageError);
  CHECK_THROWS_AS(attention(qkv, {.heads = 0}), UsageError);
  CHECK_THROWS_AS(attention(qkv, {.heads = 4, .dropout = 1}), UsageError);
  CHECK_THROWS_AS(attention(qkv, {.key_tokens = qkv}), UsageError);
  CHECK_THROWS_AS(attention(input({2, 5, 8}), input({2, 6, 8}), input({2, 7, 8}), {}), UsageError);
  CHECK_THROWS_AS(attention(input({2, 5, 8}), input({3, 5, 16}), {}), UsageError);
  CHECK_THROWS_AS(attention(input({5, 24}), {}), UsageError);
}

}  // namespace lockstep::ops
