// Which models may extend texts: those in which nothing but a cache brings earlier tokens to a new one.
#include <functional>
#include <memory>

#include "kernels/base/error.h"
#include "kernels/external_op.h"
#include "model/define_op.h"
#include "model/zoo/zoo.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace lockstep::model {
namespace {

using tests::contains;
using tests::message_of;

constexpr std::int64_t vocabulary = 9;
const InputSpec texts{.shape = {8},
                      .num_classes = vocabulary,
                      .target_shape = {8},
                      .dtype = DType::i64,
                      .vocab_size = vocabulary};

void decode(const Model& model, const InputSpec& input = texts) {
  for (const std::int64_t tokens : {1, 3}) build_decoding(model, input, 2, tokens, 8);
}

/// With `mix` between an embedding of four columns and the classifier.
Model model_with(const std::function<Tensor(Tensor)>& mix) {
  return {.name = "mixer", .forward = [mix](Tensor x) {
            return linear(mix(embedding(x, "wte", vocabulary, 4)), "head", vocabulary);
          }};
}

/// y = x, of which nothing but `says_so` tells that it mixes no tokens.
struct Same : kernels::ExternalRules {
  explicit Same(bool says) : says_so(says) {}
  std::string plugin() const override { return "test"; }
  std::string name() const override { return "same"; }
  Types infer(TypeSpan in) const override { return {in[0]}; }
  kernels::ExternalKernel cpu_kernel(const kernels::KernelIo&) const override { return {}; }
  bool keeps_positions() const override { return says_so; }
  bool says_so;
};

Tensor same(Tensor x, bool says_so) {
  return apply_op(x.graph(), make_op(kernels::ExternalOp{std::make_shared<Same>(says_so)}), {x}, "same")
      .front();
}

TEST_CASE("decoding: a recurrent model keeps no state from token to token, so it is refused") {
  for (const char* name : {"rnn", "lstm"}) {
    const ModelArgs args{{"embedding", "4"}, {"hidden", "4"}, {"layers", "2"}, {"output", "all"}};
    const Model model = find_model(zoo(), name, {}).make(args, texts);
    CHECK_THAT(message_of<UsageError>([&] { decode(model); }),
               contains(std::string("model '") + name + "'") &&
                   contains(std::string("'") + name + "' would need") && contains("gpt2"));
  }
}

TEST_CASE("decoding: what mixes tokens without a cache is refused by its op's name") {
  const auto refused = [](const std::function<Tensor(Tensor)>& mix) {
    return message_of<UsageError>([&] { decode(model_with(mix)); });
  };
  const auto pooled = [](Tensor x) {
    const Shape shape = x.shape();
    const Tensor mean = adaptive_avg_pool2d(reshape(x, {shape[0], 1, shape[1], shape[2]}), 1, shape[2]);
    return add(x, reshape(mean, {shape[0], 1, shape[2]}));
  };
  CHECK_THAT(refused(pooled), contains("model 'mixer'") && contains("adaptive_avg_pool2d"));
  CHECK_THAT(refused([](Tensor x) {
               return split(concat({x, x}, 1), {x.shape()[1], x.shape()[1]}, 1)[1];
             }),
             contains("'concat', 'split' would need"));
  CHECK_THAT(refused([](Tensor x) {
               return permute(permute(x, {0, 2, 1}), {0, 2, 1});
             }),
             contains("its op 'permute'"));
  CHECK_THAT(refused([](Tensor x) { return reshape(flatten(x), x.shape()); }), contains("its op 'reshape'"));
}

TEST_CASE("decoding: attention to the keys of a source is none to those of the text itself") {
  const Model model{.name = "filler", .forward = [](Tensor tokens) {
                      const Tensor x = embedding(tokens, "wte", vocabulary, 4);
                      return linear(attention(x, x, x, {.key_tokens = tokens}), "head", vocabulary);
                    }};
  CHECK_THAT(message_of<UsageError>([&] { decode(model); }), contains("'source_positions'"));
}

TEST_CASE("decoding: an op of a plugin says that it mixes no tokens, else it is taken to") {
  CHECK_THAT(message_of<UsageError>([] { decode(model_with([](Tensor x) { return same(x, false); })); }),
             contains("its op 'same'") && contains("ExternalRules::keeps_positions"));
  CHECK_NOTHROW(decode(model_with([](Tensor x) { return same(x, true); })));
}

TEST_CASE("decoding: what works on each token by itself, or on a source, is taken") {
  const auto by_token = [](Tensor x) {
    x = steps_first(rms_norm(layer_norm(steps_first(x), "ln"), "rms"));
    const auto parts = split(x, {1, 3}, -1);
    x = concat({gelu(parts[0]), parts[1]}, 2);
    return reshape(reshape(x, {x.shape()[0], x.shape()[1], 2, 2}), x.shape());
  };
  CHECK_NOTHROW(decode(model_with(by_token)));
  InputSpec pairs = texts;
  pairs.source_length = 5;
  pairs.shape = {10};
  CHECK_NOTHROW(decode(find_model(zoo(), "transformer", {}).make({{"d_model", "8"}}, pairs), pairs));
  CHECK_NOTHROW(decode(find_model(zoo(), "gpt2", {}).make({{"n_embd", "12"}, {"n_layer", "2"}}, texts)));
}

}  // namespace
}  // namespace lockstep::model
