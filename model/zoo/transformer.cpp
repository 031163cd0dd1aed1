#include <cmath>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "model/define_op.h"
#include "model/zoo/zoo.h"

namespace lockstep::model {
namespace {

const IntegerArgument vocab_size{.key = "vocab_size", .otherwise = 10000, .range = feature_counts};
const IntegerArgument d_model{.key = "d_model", .otherwise = 256, .range = feature_counts};
const IntegerArgument nhead{.key = "nhead", .otherwise = 4, .range = {1, 1024}};
const IntegerArgument layer_count{.key = "layers", .otherwise = 2, .range = {1, 1000}};
const IntegerArgument block_size{.key = "block_size", .otherwise = 64, .range = feature_counts};
const RealArgument dropout_share{.key = "dropout", .otherwise = 0, .range = {0, 0.999}};
const ChoiceArgument positions{.key = "positions", .choices = {"sinusoidal", "learned"}};
const SwitchArgument norm_first{.key = "norm_first", .otherwise = false};

/// nn.init.xavier_uniform_ (X. Glorot and Y. Bengio, 2010), as nn.Transformer starts all its matrices.
Initializer xavier_uniform(std::int64_t outputs, std::int64_t inputs) {
  return {.bound = std::sqrt(6.0F / static_cast<float>(outputs + inputs))};
}

struct Sizes {
  std::int64_t columns, heads, layers, positions, source_length, vocab, classes;
  double dropped;
  bool learned, norm_first;
};

/// The parameters of nn.MultiheadAttention.
class MultiheadAttention {
 public:
  MultiheadAttention(const Sizes& s, Graph& graph, const std::string& name)
      : s_(s),
        name_(name),
        weight_(parameter(graph, name + ".in_proj_weight", {3 * s.columns, s.columns},
                          xavier_uniform(3 * s.columns, s.columns))),
        bias_(parameter(graph, name + ".in_proj_bias", {3 * s.columns})) {}

  /// `tokens`: of x, where padding is not looked at.
  Tensor of_itself(Tensor x, bool causal, std::optional<Tensor> tokens) const {
    AttentionOptions options = common();
    options.causal = causal;
    options.key_tokens = tokens;
    return projected(attention(shared_linear(x, weight_, bias_), options));
  }

  Tensor of_memory(Tensor x, Tensor memory, Tensor tokens) const {
    AttentionOptions options = common();
    options.key_tokens = tokens;
    const auto weights = split(weight_, {s_.columns, 2 * s_.columns}, 0);
    const auto biases = split(bias_, {s_.columns, 2 * s_.columns}, 0);
    const Tensor q = shared_linear(x, once_for_source(weights[0]), once_for_source(biases[0]));
    return projected(attention(q, shared_linear(memory, weights[1], biases[1]), options));
  }

 private:
  AttentionOptions common() const { return {.heads = s_.heads, .dropout = s_.dropped, .layer = name_}; }

  Tensor projected(Tensor y) const {
    return linear(y, name_ + ".out_proj", s_.columns,
                  {.initializer = xavier_uniform(s_.columns, s_.columns)});
  }

  const Sizes& s_;
  std::string name_;
  Tensor weight_;
  Tensor bias_;
};

Tensor feed_forward(const Sizes& s, Tensor x, const std::string& name) {
  const std::int64_t wide = 4 * s.columns;
  x = relu(linear(
      x, name + ".linear1", wide,
      {.initializer = xavier_uniform(wide, s.columns), .bias_initializer = uniform_by_fan_in(s.columns)}));
  return linear(
      dropout(x, s.dropped), name + ".linear2", s.columns,
      {.initializer = xavier_uniform(s.columns, wide), .bias_initializer = uniform_by_fan_in(wide)});
}

/// x and what `part` makes of it, with a norm before the part or behind the sum.
template <class Part>
Tensor residual(const Sizes& s, Tensor x, const std::string& norm, const Part& part) {
  if (s.norm_first) return add(x, dropout(part(layer_norm(x, norm)), s.dropped));
  return layer_norm(add(x, dropout(part(x), s.dropped)), norm);
}

Tensor encoder_layer(const Sizes& s, Tensor x, Tensor tokens, const std::string& name) {
  x = residual(s, x, name + ".norm1", [&](Tensor in) {
    return MultiheadAttention(s, in.graph(), name + ".self_attn").of_itself(in, false, tokens);
  });
  return residual(s, x, name + ".norm2", [&](Tensor in) { return feed_forward(s, in, name); });
}

/// Padding comes last in a row, so no position that counts looks at padding of the target.
Tensor decoder_layer(const Sizes& s, Tensor x, Tensor memory, Tensor source, const std::string& name) {
  x = residual(s, x, name + ".norm1", [&](Tensor in) {
    return MultiheadAttention(s, in.graph(), name + ".self_attn").of_itself(in, true, std::nullopt);
  });
  x = residual(s, x, name + ".norm2", [&](Tensor in) {
    return MultiheadAttention(s, in.graph(), name + ".multihead_attn").of_memory(in, memory, source);
  });
  return residual(s, x, name + ".norm3", [&](Tensor in) { return feed_forward(s, in, name); });
}

Tensor with_positions(const Sizes& s, Tensor x, std::optional<Tensor> pos) {
  if (!pos) return position_encoding(x);
  const std::int64_t length = x.shape()[1];
  if (length > s.positions) {
    throw UsageError(
        fmt::format("model 'transformer': sequences of {} tokens are longer than block_size={}; "
                    "give --model-args block_size={} or positions=sinusoidal",
                    length, s.positions, length));
  }
  return add(x, rows_of_positions(x, *pos));
}

Tensor encoded(const Sizes& s, Tensor x, Tensor tokens) {
  const WholeSequences whole(x.graph());
  for (std::int64_t i = 0; i < s.layers; ++i) {
    const std::string name = fmt::format("tr.encoder.layers.{}", i);
    x = segment(x, [&](Tensor in) { return encoder_layer(s, in, tokens, name); });
  }
  return layer_norm(x, "tr.encoder.norm");
}

Tensor forward(const Sizes& s, Tensor tokens) {
  Graph& graph = tokens.graph();
  if (graph.decodes() && s.source_length == 0) {
    throw UsageError(
        "model 'transformer' without a source sees all of a text at once, so none can grow: "
        "train it on --dataset parallel-text, or take gpt2");
  }
  Tensor source = tokens;
  Tensor target = tokens;
  if (s.source_length > 0) {
    const auto parts = split(tokens, {s.source_length, tokens.shape()[1] - s.source_length}, 1);
    source = parts[0];
    target = parts[1];
  }
  const Tensor table = embedding_weight(graph, "embedding", s.vocab, s.columns);
  std::optional<Tensor> pos;
  if (s.learned) pos = parameter(graph, "pos", {s.positions, s.columns});
  const auto embedded = [&](Tensor of) { return with_positions(s, embedding(of, table), pos); };
  Tensor memory = [&] {
    const WholeSequences whole(graph);
    return embedded(source);
  }();
  Tensor y = s.source_length > 0 ? embedded(target) : memory;
  memory = encoded(s, memory, source);
  for (std::int64_t i = 0; i < s.layers; ++i) {
    const std::string name = fmt::format("tr.decoder.layers.{}", i);
    y = segment(y, [&](Tensor x) { return decoder_layer(s, x, memory, source, name); });
  }
  return linear(layer_norm(y, "tr.decoder.norm"), "fc", s.classes);
}

Model make(const ModelArgs& args, const InputSpec& input) {
  const Sizes s{.columns = d_model.of(args),
                .heads = nhead.of(args),
                .layers = layer_count.of(args),
                .positions = block_size.of(args),
                .source_length = input.source_length,
                .vocab = input.vocab_size,
                .classes = input.num_classes,
                .dropped = dropout_share.of(args),
                .learned = positions.of(args) == "learned",
                .norm_first = norm_first.of(args)};
  require_tokens("transformer", input);
  require_heads("transformer", d_model.key, s.columns, nhead.key, s.heads);
  return {.name = "transformer", .forward = [s](Tensor tokens) { return forward(s, tokens); }};
}

}  // namespace

ZooEntry transformer_entry() {
  return {
      .name = "transformer",
      .what = "encoder and decoder, torch.nn.Transformer's; source and target, or one sequence as both",
      .arguments = {vocab_size, d_model, nhead, layer_count, block_size, dropout_share, positions,
                    norm_first},
      .wants =
          [](const ModelArgs& args) { return next_token_input(block_size.of(args), vocab_size.of(args)); },
      .make = make,
      .example = "--dataset synthetic --batch-size 16"};
}

}  // namespace lockstep::model
