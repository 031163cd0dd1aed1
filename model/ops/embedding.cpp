#include "kernels/embedding.h"

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "model/define_op.h"

namespace lockstep::model {
namespace {

using kernels::Embedding;

void differentiate(const Embedding&, Backward& backward) {
  backward.add_gradients(kernels::EmbeddingBackward{},
                         {backward.output_gradient(), backward.input(Embedding::tokens)},
                         {Embedding::weight});
}

Tensor look_up(Tensor tokens, Tensor weight, const std::string& layer) {
  return apply(tokens.graph(), Embedding{}, differentiate, {tokens, weight}, layer);
}

}  // namespace

Tensor embedding_weight(Graph& graph, const std::string& name, std::int64_t vocab, std::int64_t dim,
                        Initializer initializer) {
  if (vocab < 1 || dim < 1) {
    throw UsageError(
        fmt::format("layer '{}' (embedding): {} rows of {} numbers do not make a table", name, vocab, dim));
  }
  return parameter(graph, parameter_name(name, "weight"), {vocab, dim}, initializer);
}

Tensor embedding(Tensor tokens, Tensor weight) {
  return look_up(tokens, weight, layer_of(weight));
}

Tensor embedding(Tensor tokens, const std::string& name, std::int64_t vocab, std::int64_t dim,
                 EmbeddingOptions options) {
  const Initializer normal{.deviation = 1};
  return look_up(
      tokens, embedding_weight(tokens.graph(), name, vocab, dim, options.initializer.value_or(normal)), name);
}

}  // namespace lockstep::model
