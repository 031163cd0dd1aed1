// gpt2 and transformer: names, sizes and starts of their parameters, and what they refuse.
#include <algorithm>
#include <cmath>

#include "kernels/attention.h"
#include "kernels/base/error.h"
#include "model/spec_op.h"
#include "model/zoo/zoo.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace lockstep::model {
namespace {

using tests::message_of;

Graph graph_of(const std::string& name, const ModelArgs& args, const InputSpec& input) {
  return build_graph(find_model(name, args).make(args, input), input, 2, true);
}

Graph graph_of(const std::string& name, const ModelArgs& args) {
  return graph_of(name, args, find_model(name, args).wants(args));
}

const Parameter& parameter_of(const Graph& graph, const std::string& name) {
  const auto found = std::ranges::find_if(graph.parameters(), [&](const Parameter& parameter) {
    return graph.value(parameter.value).name == name;
  });
  INFO(name);
  REQUIRE(found != graph.parameters().end());
  return *found;
}

const ModelArgs small_gpt2{
    {"n_layer", "2"}, {"n_head", "2"}, {"n_embd", "8"}, {"block_size", "16"}, {"vocab_size", "11"}};

InputSpec tokens(std::int64_t length, std::int64_t vocab, std::int64_t classes) {
  return {.shape = {length},
          .num_classes = classes,
          .target_shape = {length},
          .dtype = DType::i64,
          .vocab_size = vocab};
}

}  // namespace

TEST_CASE("sequence models have as many parameters as the peer's") {
  CHECK(graph_of("gpt2", {}).parameter_elements() == 124'439'808);
  CHECK(
      graph_of(
          "gpt2",
          {{"n_layer", "4"}, {"n_head", "4"}, {"n_embd", "128"}, {"block_size", "64"}, {"vocab_size", "65"}})
          .parameter_elements() == 809'856);
  CHECK(graph_of("transformer", {{"positions", "learned"}}).parameter_elements() == 8'833'808);
  CHECK(graph_of("transformer", {}).parameter_elements() == 8'833'808 - 64 * 256);
}

TEST_CASE("what is dropped does not depend on how long a batch is") {
  const auto dropping = [](const std::string& name, const ModelArgs& args, std::int64_t length) {
    std::vector<std::string> ops;
    const Graph graph = graph_of(name, args, tokens(length, 11, 11));
    for (const Node& node : graph.nodes()) {
      const bool drops = node.op->name() == "dropout" || node.op->name() == "attention";
      if (drops) ops.push_back(node.layer + " " + node.op->attributes());
    }
    return ops;
  };
  const std::vector<std::string> whole = dropping("gpt2", small_gpt2, 16);
  CHECK(whole.size() == 7);  // of the embeddings, and of two blocks with three each
  CHECK(dropping("gpt2", small_gpt2, 8) == whole);
  const ModelArgs learned{{"positions", "learned"}, {"dropout", "0.1"}, {"block_size", "16"},
                          {"vocab_size", "11"},     {"d_model", "8"},   {"nhead", "2"}};
  CHECK(dropping("transformer", learned, 8) == dropping("transformer", learned, 16));
}

TEST_CASE("gpt2 has Hugging Face's names and layouts, and starts as theirs does") {
  const Graph graph = graph_of("gpt2", small_gpt2);
  const Parameter& wide = parameter_of(graph, "transformer.h.1.attn.c_attn.weight");
  CHECK(wide.file_shape == Shape{8, 24});
  CHECK(wide.file_transposed);
  CHECK(graph.value(wide.value).type.shape == Shape{24, 8});
  CHECK(wide.initializer.deviation == 0.02F);
  const Parameter& residual = parameter_of(graph, "transformer.h.0.mlp.c_proj.weight");
  CHECK(residual.file_shape == Shape{32, 8});
  CHECK(residual.initializer.deviation == Approx(0.02 / std::sqrt(4.0)));
  CHECK(parameter_of(graph, "transformer.wte.weight").file_shape == Shape{11, 8});
  CHECK_FALSE(parameter_of(graph, "transformer.wpe.weight").file_transposed);
  for (const char* name : {"transformer.h.0.ln_1.bias", "transformer.h.0.attn.c_proj.bias",
                           "transformer.h.1.mlp.c_fc.bias", "transformer.ln_f.bias"}) {
    const Initializer& zeros = parameter_of(graph, name).initializer;
    CHECK((zeros.bound == 0 && zeros.start == 0 && zeros.deviation == 0));
  }
  // A layer has 12 tensors; beside them two tables and the last norm.
  CHECK(graph.parameters().size() == 2 * 12 + 4);
}

TEST_CASE("gpt2 looks up tokens before positions, whatever the length of its rows") {
  for (const std::int64_t length : {16, 8}) {
    const Graph graph = graph_of("gpt2", small_gpt2, tokens(length, 11, 11));
    const ValueId vocabulary = parameter_of(graph, "transformer.wte.weight").value;
    CHECK(std::ranges::count(graph.nodes().front().inputs, vocabulary) == 1);
  }
}

TEST_CASE("transformer has nn.Transformer's names, and starts as it does") {
  const Graph graph = graph_of("transformer", {{"positions", "learned"}, {"layers", "1"}});
  const Parameter& in = parameter_of(graph, "tr.decoder.layers.0.multihead_attn.in_proj_weight");
  CHECK(in.file_shape == Shape{768, 256});
  CHECK(in.initializer.bound == Approx(std::sqrt(6.0 / (768 + 256))));
  CHECK(parameter_of(graph, "tr.encoder.layers.0.self_attn.in_proj_bias").initializer.bound == 0);
  CHECK(parameter_of(graph, "tr.encoder.layers.0.linear1.bias").initializer.bound ==
        Approx(1 / std::sqrt(256.0)));
  CHECK(parameter_of(graph, "tr.encoder.layers.0.linear2.weight").initializer.bound ==
        Approx(std::sqrt(6.0 / (1024 + 256))));
  CHECK(parameter_of(graph, "embedding.weight").initializer.deviation == 1);
  CHECK(parameter_of(graph, "pos").file_shape == Shape{64, 256});
  for (const char* name :
       {"tr.encoder.norm.weight", "tr.decoder.norm.bias", "tr.decoder.layers.0.norm3.weight",
        "tr.decoder.layers.0.self_attn.out_proj.weight", "fc.bias"}) {
    parameter_of(graph, name);
  }
}

TEST_CASE("sequence models take shorter sequences, and refuse longer ones than they have positions") {
  CHECK(graph_of("gpt2", small_gpt2, tokens(5, 11, 11)).parameter_elements() ==
        graph_of("gpt2", small_gpt2).parameter_elements());
  CHECK(message_of<UsageError>([] { graph_of("gpt2", small_gpt2, tokens(17, 11, 11)); }) ==
        "model 'gpt2': sequences of 17 tokens are longer than block_size=16; give --model-args block_size=17 "
        "or "
        "shorter ones");
  CHECK_THROWS_AS(graph_of("transformer", {{"positions", "learned"}}, tokens(65, 9, 9)), UsageError);
  graph_of("transformer", {}, tokens(65, 9, 9));
}

TEST_CASE("transformer cuts a row into source and target") {
  InputSpec pairs = tokens(5, 9, 9);
  pairs.shape = {12};
  pairs.source_length = 7;
  const Graph graph = graph_of("transformer", {{"layers", "1"}}, pairs);
  CHECK(graph.value(graph.output).type.shape == Shape{2, 5, 9});
}

TEST_CASE("gpt2 keeps the documents of a row apart, and has the same parameters") {
  InputSpec packed = tokens(12, 11, 11);
  packed.shape = {24};
  packed.packed = true;
  const Graph graph = graph_of("gpt2", small_gpt2, packed);
  CHECK(graph.value(graph.output).type.shape == Shape{2, 12, 11});
  const Graph plain = graph_of("gpt2", small_gpt2, tokens(12, 11, 11));
  REQUIRE(graph.parameters().size() == plain.parameters().size());
  for (std::size_t i = 0; i < plain.parameters().size(); ++i)
    CHECK(graph.parameters()[i].file_shape == plain.parameters()[i].file_shape);
  CHECK(token_parameters(graph) == std::vector<std::string>{"transformer.wte.weight"});
  for (const Node& node : graph.nodes()) {
    const auto* const op = node.op->as<kernels::Attention>();
    if (op != nullptr) CHECK(op->documents);
  }
  CHECK(message_of<UsageError>([&] {
          packed.shape = {34};
          packed.target_shape = {17};
          graph_of("gpt2", small_gpt2, packed);
        }).starts_with("model 'gpt2': sequences of 17 tokens are longer than block_size=16"));
}

TEST_CASE("sequence models refuse what is no sequence, and heads that do not fit") {
  const InputSpec pictures{.shape = {1, 28, 28}, .num_classes = 10};
  for (const char* model : {"gpt2", "transformer", "rnn", "lstm"}) {
    CHECK_THAT(message_of<UsageError>([&] { graph_of(model, {}, pictures); }),
               tests::contains(std::string("model '") + model + "' takes sequences of tokens"));
  }
  CHECK(message_of<UsageError>([] {
          graph_of("gpt2", {{"n_head", "5"}});
        }) == "model 'gpt2': n_embd=768 does not divide among n_head=5 heads");
}

}  // namespace lockstep::model
