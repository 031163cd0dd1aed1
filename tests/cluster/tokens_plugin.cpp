// Small models of tokens for the runs of sequences.cpp: `tagger` gives a class for each token, `bag` one for
// a sequence, of the tokens that are no padding.
#include <algorithm>

#include "kernels/cpu/parallel.h"
#include "runtime/plugin/plugin.h"

using namespace lockstep;
using model::Tensor;

namespace {

using kernels::Addresses;

/// Tokens (N, T) i64 as rows of a unit matrix, (N, T, V), or their sum over T, (N, V). Padding is no token.
struct OneHot : kernels::ExternalRules {
  OneHot(std::int64_t tokens, bool sums) : vocab_size(tokens), summed(sums) {}
  std::string plugin() const override { return "tokens"; }
  std::string name() const override { return summed ? "token_counts" : "one_hot"; }
  std::string attributes() const override { return "vocab " + std::to_string(vocab_size); }

  kernels::Types infer(kernels::TypeSpan in) const override {
    kernels::require_count(in, 1, 1);
    kernels::require_dtype("tokens", in[0], DType::i64);
    kernels::require_rank("tokens", in[0], 2);
    const std::int64_t samples = in[0].shape[0];
    const Shape shape = summed ? Shape{samples, vocab_size} : Shape{samples, in[0].shape[1], vocab_size};
    return {{DType::f32, shape}};
  }

  kernels::ExternalKernel cpu_kernel(const kernels::KernelIo& io) const override {
    const std::int64_t length = io.inputs[0].shape[1];
    const std::int64_t samples = io.inputs[0].shape[0];
    return {[=, vocab = vocab_size, sums = summed](const Addresses& a) {
      const auto* const tokens = a.in<std::int64_t>(0);
      std::fill_n(a.out(0), samples * (sums ? 1 : length) * vocab, 0.0F);
      for (std::int64_t at = 0; at < samples * length; ++at) {
        if (tokens[at] >= 0) a.out(0)[(sums ? at / length : at) * vocab + tokens[at]] += 1;
      }
    }};
  }

  std::int64_t vocab_size;
  bool summed;
};

void differentiate(const kernels::ExternalOp&, model::Backward&) {}

Tensor one_hot(Tensor tokens, std::int64_t vocab_size, bool sums) {
  return model::apply(tokens.graph(), kernels::ExternalOp{std::make_shared<OneHot>(vocab_size, sums)},
                      differentiate, {tokens.id()}, "tokens");
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

model::Model make(const std::string& name, const model::InputSpec& input, bool sums) {
  return {.name = name, .forward = [=](Tensor x) {
            const std::int64_t source = input.source_length;
            if (source > 0) x = split(x, {source, x.shape()[1] - source}, 1).back();
            x = linear(one_hot(x, input.vocab_size, sums), "embedding", 12);
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
  registry.add_op({.name = "one_hot", .what = "tokens as unit vectors", .plugin = ""});
  registry.add_op({.name = "token_counts", .what = "how often each token comes", .plugin = ""});
}

}  // namespace

LOCKSTEP_PLUGIN("tokens", add_to)
