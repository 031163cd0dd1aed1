#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "model/zoo/zoo.h"

namespace lockstep::model {
namespace {

const IntegerArgument n_layer{.key = "n_layer", .otherwise = 12, .range = {1, 1000}};
const IntegerArgument n_head{.key = "n_head", .otherwise = 12, .range = {1, 1024}};
const IntegerArgument n_embd{.key = "n_embd", .otherwise = 768, .range = feature_counts};
const IntegerArgument block_size{.key = "block_size", .otherwise = 1024, .range = feature_counts};
const IntegerArgument vocab_size{.key = "vocab_size", .otherwise = 50257, .range = feature_counts};
const RealArgument dropout_share{.key = "dropout", .otherwise = 0.1, .range = {0, 0.999}};

struct Sizes {
  std::int64_t layers, heads, columns, positions, vocab;
  double dropped;
  bool packed;
};

constexpr float deviation = 0.02F;

/// Radford and others, "Language models are unsupervised multitask learners" (2019), 2.3: what is added to
/// the residual path starts smaller with depth.
Initializer residual(const Sizes& s) {
  return {.deviation = deviation / std::sqrt(2.0F * static_cast<float>(s.layers))};
}

/// Hugging Face's Conv1D.
Tensor conv1d(Tensor x, const std::string& name, std::int64_t outputs, Initializer weight) {
  return linear(x, name, outputs, {.initializer = weight, .file_transposed = true});
}

Tensor block(const Sizes& s, Tensor x, std::optional<Tensor> positions, const std::string& name) {
  const Initializer plain{.deviation = deviation};
  Tensor y = conv1d(layer_norm(x, name + ".ln_1"), name + ".attn.c_attn", 3 * s.columns, plain);
  y = attention(y, {.heads = s.heads,
                    .causal = true,
                    .positions = positions,
                    .dropout = s.dropped,
                    .layer = name + ".attn"});
  x = add(x, dropout(conv1d(y, name + ".attn.c_proj", s.columns, residual(s)), s.dropped));
  y = gelu_tanh(conv1d(layer_norm(x, name + ".ln_2"), name + ".mlp.c_fc", 4 * s.columns, plain));
  return add(x, dropout(conv1d(y, name + ".mlp.c_proj", s.columns, residual(s)), s.dropped));
}

/// Packed documents have positions of their own. The nodes have one order, whatever compiles this.
Tensor embedded(Tensor tokens, std::optional<Tensor> positions, Tensor wte, Tensor wpe) {
  const Tensor x = embedding(tokens, wte);  // first: the weight whose rows are the vocabulary
  return add(x, positions ? embedding(*positions, wpe) : rows_of_positions(tokens, wpe));
}

Tensor forward(const Sizes& s, Tensor tokens) {
  Graph& graph = tokens.graph();
  std::optional<Tensor> positions;
  if (s.packed) {
    const std::int64_t half = tokens.shape()[1] / 2;
    const auto parts = split(tokens, {half, half}, 1);
    tokens = parts[0];
    positions = parts[1];
  }
  const std::int64_t length = tokens.shape()[1];
  if (length > s.positions) {
    throw UsageError(
        fmt::format("model 'gpt2': sequences of {} tokens are longer than block_size={}; give "
                    "--model-args block_size={} or shorter ones",
                    length, s.positions, length));
  }
  const Initializer plain{.deviation = deviation};
  const Tensor wte = embedding_weight(graph, "transformer.wte", s.vocab, s.columns, plain);
  const Tensor wpe = embedding_weight(graph, "transformer.wpe", s.positions, s.columns, plain);
  Tensor x = dropout(embedded(tokens, positions, wte, wpe), s.dropped);
  for (std::int64_t i = 0; i < s.layers; ++i) {
    x = segment(x, [&](Tensor in) { return block(s, in, positions, fmt::format("transformer.h.{}", i)); });
  }
  return shared_linear(layer_norm(x, "transformer.ln_f"), wte);
}

Model make(const ModelArgs& args, const InputSpec& input) {
  const Sizes s{.layers = n_layer.of(args),
                .heads = n_head.of(args),
                .columns = n_embd.of(args),
                .positions = block_size.of(args),
                .vocab = input.vocab_size,
                .dropped = dropout_share.of(args),
                .packed = input.packed};
  require_tokens("gpt2", input);
  require_heads("gpt2", n_embd.key, s.columns, n_head.key, s.heads);
  return {.name = "gpt2", .forward = [s](Tensor tokens) { return forward(s, tokens); }};
}

}  // namespace

ZooEntry gpt2_entry() {
  return {
      .name = "gpt2",
      .what = "GPT-2, Hugging Face's names and layouts; the family by its sizes, 124M as it stands",
      .arguments = {n_layer, n_head, n_embd, block_size, vocab_size, dropout_share},
      .wants =
          [](const ModelArgs& args) { return next_token_input(block_size.of(args), vocab_size.of(args)); },
      .make = make,
      .example = "--dataset synthetic --seq-len 64 --batch-size 1",
      .packs_documents = true};
}

}  // namespace lockstep::model
