// Small models of tokens for the runs of sequences.cpp: `tagger` gives a class for each token, `bag` one for
// a sequence, of the tokens that are no padding.
#include "runtime/plugin/plugin.h"
#include "tests/support/one_hot.h"

using namespace lockstep;
using model::Tensor;

namespace {

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
            x = linear(tests::one_hot(x, input.vocab_size, sums), "embedding", 12);
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
