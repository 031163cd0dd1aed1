// Small models of tokens for the runs of sequences.cpp: `tagger` gives a class for each token, `bag` one for
// a sequence, of the tokens that are no padding.
#include <algorithm>

#include "runtime/plugin/plugin.h"

using namespace lockstep;
using model::Tensor;

namespace {

/// Of tokens (N, T) i64 how often each comes, (N, V). Padding is no token.
struct TokenCounts : kernels::ExternalRules {
  explicit TokenCounts(std::int64_t tokens) : vocab_size(tokens) {}
  std::string plugin() const override { return "tokens"; }
  std::string name() const override { return "token_counts"; }
  std::string attributes() const override { return "vocab " + std::to_string(vocab_size); }

  kernels::Types infer(kernels::TypeSpan in) const override {
    kernels::require_count(in, 1, 1);
    kernels::require_dtype("tokens", in[0], DType::i64);
    kernels::require_rank("tokens", in[0], 2);
    return {{DType::f32, {in[0].shape[0], vocab_size}}};
  }

  kernels::ExternalKernel cpu_kernel(const kernels::KernelIo& io) const override {
    const std::int64_t length = io.inputs[0].shape[1];
    const std::int64_t samples = io.inputs[0].shape[0];
    return {[=, vocab = vocab_size](const kernels::Addresses& a) {
      const auto* const tokens = a.in<std::int64_t>(0);
      std::fill_n(a.out(0), samples * vocab, 0.0F);
      for (std::int64_t at = 0; at < samples * length; ++at) {
        if (tokens[at] >= 0 && tokens[at] < vocab) a.out(0)[at / length * vocab + tokens[at]] += 1;
      }
    }};
  }

  std::int64_t vocab_size;
};

void differentiate(const kernels::ExternalOp&, model::Backward&) {}

Tensor token_counts(Tensor tokens, std::int64_t vocab_size) {
  return model::apply(tokens.graph(), kernels::ExternalOp{std::make_shared<TokenCounts>(vocab_size)},
                      differentiate, {tokens}, "tokens");
}

const model::IntegerArgument vocabulary{.key = "vocab_size", .otherwise = 24, .range = {1, 1000}};
const model::IntegerArgument num_classes = model::class_count(6);

model::InputSpec wants_of_tagger(const model::ModelArgs& args) {
  const std::int64_t tokens = vocabulary.of(args);
  return {
      .shape = {16}, .num_classes = tokens, .target_shape = {16}, .dtype = DType::i64, .vocab_size = tokens};
}

model::InputSpec wants_of_bag(const model::ModelArgs& args) {
  return {.shape = {16},
          .num_classes = num_classes.of(args),
          .target_shape = {},
          .dtype = DType::i64,
          .vocab_size = vocabulary.of(args)};
}

model::Model make(const std::string& name, const model::InputSpec& input, bool counts) {
  return {.name = name, .forward = [=](Tensor x) {
            const std::int64_t source = input.source_length;
            if (source > 0) x = split(x, {source, x.shape()[1] - source}, 1).back();
            x = counts ? linear(token_counts(x, input.vocab_size), "embedding", 12)
                       : embedding(x, "embedding", input.vocab_size, 12);
            return linear(tanh(x), "fc", input.num_classes);
          }};
}

model::Model make_tagger(const model::ModelArgs&, const model::InputSpec& input) {
  return make("tagger", input, false);
}

model::Model make_bag(const model::ModelArgs&, const model::InputSpec& input) {
  return make("bag", input, true);
}

void add_to(runtime::Registry& registry) {
  registry.add_model({.name = "tagger",
                      .what = "a class for each token",
                      .arguments = {vocabulary},
                      .wants = wants_of_tagger,
                      .make = make_tagger});
  registry.add_model({.name = "bag",
                      .what = "a class for a sequence",
                      .arguments = {vocabulary, num_classes},
                      .wants = wants_of_bag,
                      .make = make_bag});
  registry.add_op({.name = "token_counts", .what = "how often each token comes", .plugin = ""});
}

}  // namespace

LOCKSTEP_PLUGIN("tokens", add_to)
