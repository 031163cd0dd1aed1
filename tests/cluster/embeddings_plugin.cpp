// Small models of tokens for the runs of embeddings.cpp: `untied` has a table of its own, `tied` classifies
// by the table's weight, `twice` looks up two parts of a row in one table.
#include "runtime/plugin/plugin.h"

using namespace lockstep;
using model::Tensor;

namespace {

constexpr std::int64_t length = 6;
constexpr std::int64_t dim = 20;
const model::IntegerArgument vocabulary{.key = "vocab_size", .otherwise = 600, .range = {1, 100'000}};

model::InputSpec wants(const model::ModelArgs& args, std::int64_t classes) {
  return {.shape = {length},
          .num_classes = classes,
          .target_shape = {length},
          .dtype = DType::i64,
          .vocab_size = vocabulary.of(args)};
}

model::InputSpec wants_ten_classes(const model::ModelArgs& args) {
  return wants(args, 10);
}

model::InputSpec wants_tokens(const model::ModelArgs& args) {
  return wants(args, vocabulary.of(args));
}

model::Model make_untied(const model::ModelArgs&, const model::InputSpec& input) {
  return {.name = "untied", .forward = [=](Tensor x) {
            x = tanh(linear(embedding(x, "wte", input.vocab_size, dim), "h", dim));
            return linear(x, "fc", input.num_classes);
          }};
}

model::Model make_tied(const model::ModelArgs&, const model::InputSpec& input) {
  return {.name = "tied", .forward = [=](Tensor x) {
            const Tensor weight =
                embedding_weight(x.graph(), "wte", input.vocab_size, dim, {.deviation = 0.2F});
            return shared_linear(tanh(linear(embedding(x, weight), "h", dim)), weight);
          }};
}

model::Model make_twice(const model::ModelArgs&, const model::InputSpec& input) {
  return {.name = "twice", .forward = [=](Tensor x) {
            const Tensor weight = embedding_weight(x.graph(), "wte", input.vocab_size, dim, {.deviation = 1});
            const Tensor source = tanh(linear(embedding(x, weight), "h", dim));
            return linear(add(source, embedding(x, weight)), "fc", input.num_classes);
          }};
}

void add_to(runtime::Registry& registry) {
  const auto add = [&](const char* name, auto wanted, auto make) {
    registry.add_model({.name = name, .what = "", .arguments = {vocabulary}, .wants = wanted, .make = make});
  };
  add("untied", wants_ten_classes, make_untied);
  add("tied", wants_tokens, make_tied);
  add("twice", wants_ten_classes, make_twice);
}

}  // namespace

LOCKSTEP_PLUGIN("embeddings", add_to)
