#include "kernels/attention.h"

#include <cmath>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "model/define_op.h"

namespace lockstep::model {
namespace {

using kernels::Attention;
using kernels::AttentionBackward;

void differentiate(const Attention& op, Backward& backward) {
  std::vector<ValueId> operands{backward.output_gradient(), backward.output(Attention::y),
                                backward.output(Attention::logsumexp)};
  for (std::size_t i = 0; i < op.inputs(); ++i) operands.push_back(backward.input(i));
  std::vector<std::size_t> parts;
  for (std::size_t i = 0; i < op.parts(); ++i) parts.push_back(i);
  backward.add_gradients(AttentionBackward{op}, std::move(operands), parts);
}

/// q, k and v of `parts`, which has them packed as kernels::Attention says.
std::vector<Tensor> unpacked(const std::vector<Tensor>& parts) {
  if (parts.size() == 3) return parts;
  const std::int64_t packed = parts.size() == 1 ? 3 : 2;
  const Tensor& last = parts.back();
  const std::int64_t columns = last.shape()[2] / packed;
  std::vector<Tensor> all(parts.begin(), parts.end() - 1);
  const auto cut = split(last, std::vector<std::int64_t>(static_cast<std::size_t>(packed), columns), 2);
  all.insert(all.end(), cut.begin(), cut.end());
  return all;
}

/// `parts`: q, k and v, or packed as kernels::Attention says.
Tensor attend(const std::vector<Tensor>& parts, const AttentionOptions& options) {
  Graph& graph = parts.front().graph();
  const double p = options.dropout;
  if (!(p >= 0 && p < 1)) {
    throw UsageError(
        fmt::format("attention: the dropout probability is {}, must be at least 0 and below 1", p));
  }
  const Shape& q = parts.front().shape();
  const auto tensors = static_cast<std::int64_t>(parts.size());
  const std::int64_t columns = q.rank() == 3 ? q[2] / (tensors == 1 ? 3 : 1) : 0;
  const std::int64_t dim = options.heads > 0 ? columns / options.heads : 0;
  const double scale = options.scale.value_or(dim > 0 ? 1 / std::sqrt(static_cast<double>(dim)) : 1);
  if (graph.decodes()) {
    const std::vector<Tensor> all = unpacked(parts);
    const CachedAttentionOptions cached{options.heads, scale};
    if (options.causal) return cached_attention(all[0], all[1], all[2], options.layer, cached);
    if (options.key_tokens && tensors > 1) {
      return cached_cross_attention(all[0], all[1], all[2], *options.key_tokens, options.layer, cached);
    }
    throw UsageError(
        fmt::format("layer '{}': a text whose every token sees all others cannot grow", options.layer));
  }
  Attention op{.heads = options.heads,
               .tensors = tensors,
               .causal = options.causal,
               .masked = options.key_tokens.has_value(),
               .documents = options.positions.has_value(),
               .scale = scale};
  std::vector<Tensor> inputs = parts;
  if (op.masked) inputs.push_back(*options.key_tokens);
  if (op.documents) inputs.push_back(*options.positions);
  if (graph.training && p > 0) {
    op.p = p;
    op.stream = graph.new_dropout_stream();
    inputs.emplace_back(graph, graph.step_state());
  }
  return apply_all(graph, op, differentiate, inputs, options.layer).front();
}

}  // namespace

Tensor attention(Tensor q, Tensor k, Tensor v, AttentionOptions options) {
  return attend({q, k, v}, options);
}

Tensor attention(Tensor q, Tensor kv, AttentionOptions options) {
  return attend({q, kv}, options);
}

Tensor attention(Tensor qkv, AttentionOptions options) {
  return attend({qkv}, options);
}

}  // namespace lockstep::model
