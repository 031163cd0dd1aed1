#pragma once

#include "kernels/attention.h"
#include "tests/ops/attention_reference.h"
#include "tests/ops/conformance.h"

/// Attention with operands that are no floating-point numbers, run as kernels and compared with its
/// definition.
namespace lockstep::ops {

using kernels::Attention;
using kernels::AttentionBackward;
using kernels::StepState;
using kernels::test::device;

using Memories = std::vector<std::unique_ptr<kernels::Memory>>;

/// q, k and v (N, T, columns) with tokens, positions and state as the op wants them.
struct AttentionCase {
  Attention op;
  Shape q, k;
  std::vector<std::int64_t> tokens{};
  std::vector<std::int64_t> positions{};
  DType dtype = DType::f32;
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
    if (op.documents) {
      rules.first_key = [this](std::int64_t n, std::int64_t t) {
        return t - positions[static_cast<std::size_t>(n * q[1] + t)];
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

inline kernels::TensorDesc described(DType dtype, const Shape& shape) {
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
inline std::vector<Values> run(const AttentionCase& c, const std::vector<Values>& operands,
                               const Values& output_gradient) {
  const Shape of_rows{c.q[0], c.op.heads, c.q[1]};
  kernels::KernelIo io{{described(c.dtype, c.q), described(c.dtype, c.k), described(c.dtype, c.k)},
                       {described(c.dtype, c.q), described(DType::f32, of_rows)}};
  Memories in;
  for (const Values& values : operands)
    in.push_back(kernels::test::pack(values, *described(c.dtype, values.shape).layout, c.dtype));
  if (c.op.masked) {
    in.push_back(kernels::test::upload(c.tokens));
    io.inputs.push_back(described(DType::i64, {c.k[0], c.k[1]}));
  }
  if (c.op.documents) {
    in.push_back(kernels::test::upload(c.positions));
    io.inputs.push_back(described(DType::i64, {c.q[0], c.q[1]}));
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

  const auto dy = kernels::test::pack(output_gradient, *io.outputs[0].layout, c.dtype);
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

  std::vector<Values> results{kernels::test::unpack(*out[0], c.q, *io.outputs[0].layout, c.dtype)};
  for (std::size_t i = 0; i < 3; ++i)
    results.push_back(
        kernels::test::unpack(*gradients[i], io.inputs[i].shape, *io.inputs[i].layout, c.dtype));
  return results;
}

inline std::vector<Values> run(const AttentionCase& c) {
  return run(c, c.operands(), c.dy());
}

inline void check(const AttentionCase& c) {
  const std::vector<Values> got = run(c);
  const auto reference = [&](const std::vector<Values>& in) { return c.reference(in); };
  require_close(got[0], reference(c.operands()), 2e-5);
  for (std::size_t which = 0; which < 3; ++which) {
    INFO("gradient " << which);
    require_gradient(got[which + 1], reference, c.operands(), which, c.dy(), 5e-5);
  }
}

/// Tokens of rows that have so many, and then padding.
inline std::vector<std::int64_t> padded_tokens(std::int64_t rows, std::int64_t length,
                                               std::vector<std::int64_t> lengths) {
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(rows * length), 7);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t at = lengths[static_cast<std::size_t>(row)]; at < length; ++at)
      tokens[static_cast<std::size_t>(row * length + at)] = -1;
  }
  return tokens;
}

}  // namespace lockstep::ops
