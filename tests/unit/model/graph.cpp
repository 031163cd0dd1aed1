#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "kernels/base/error.h"
#include "model/layers.h"
#include "model/model.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace lockstep::model {
namespace {

using tests::contains;
using tests::message_of;

Tensor images(Graph& graph, Shape shape) {
  return {graph, graph.add_value("input", {DType::f32, std::move(shape)}, Role::input)};
}

TEST_CASE("shapes follow PyTorch's rules") {
  Graph graph;
  const Tensor x = images(graph, {2, 3, 9, 7});
  CHECK(conv2d(x, "a", {.out_channels = 8, .kernel = 3}).shape() == Shape{2, 8, 7, 5});
  CHECK(conv2d(x, "b", {.out_channels = 8, .kernel = 3, .stride = 2, .padding = 1}).shape() ==
        Shape{2, 8, 5, 4});
  CHECK(conv2d(x, "c", {.out_channels = 6, .kernel = 3, .dilation = 2, .groups = 3}).shape() ==
        Shape{2, 6, 5, 3});
  CHECK(max_pool2d(x).shape() == Shape{2, 3, 4, 3});
  CHECK(max_pool2d(x, {.kernel = 3, .stride = 2, .padding = 1}).shape() == Shape{2, 3, 5, 4});
  CHECK(flatten(x).shape() == Shape{2, 189});
  CHECK(linear(x, "d", 5).shape() == Shape{2, 3, 9, 5});
  CHECK(linear(flatten(x), "e", 5).shape() == Shape{2, 5});
}

TEST_CASE("a layer that does not fit is named, with the shapes") {
  Graph graph;
  const Tensor x = images(graph, {2, 3, 4, 4});
  CHECK_THAT(message_of<UsageError>([&] { conv2d(x, "stem", {.out_channels = 4, .kernel = 7}); }),
             contains("'stem'") && contains("2x3x4x4") && contains("4x3x7x7"));
  CHECK_THAT(
      message_of<UsageError>([&] { conv2d(x, "stem", {.out_channels = 4, .kernel = 1, .groups = 2}); }),
      contains("'stem'") && contains("2 groups"));
  CHECK_THAT(message_of<UsageError>([&] { max_pool2d(x, {.kernel = 5}); }),
             contains("smaller than the window"));
  CHECK_THAT(message_of<UsageError>([&] { add(x, flatten(x)); }), contains("2x3x4x4 and 2x48"));
  linear(x, "head", 2);
  CHECK_THAT(message_of<UsageError>([&] { linear(x, "head", 2); }),
             contains("two parameters are named 'head.weight'"));
}

TEST_CASE("a convolution's window is refused with the layer where it is none") {
  Graph graph;
  const Tensor x = images(graph, {2, 3, 8, 8});
  const auto refusal = [&](Conv2dOptions options) {
    return message_of<UsageError>([&] { conv2d(x, "c", options); });
  };
  CHECK_THAT(refusal({.out_channels = 4, .kernel = 3, .padding = -1}),
             contains("layer 'c' (conv2d)") && contains("padding -1 and dilation 1 do not fit"));
  CHECK_THAT(refusal({.out_channels = 4, .kernel = 3, .dilation = 0}), contains("dilation 0"));
  CHECK_THAT(refusal({.out_channels = 4, .kernel = 3, .padding = std::int64_t{1} << 62}),
             contains("padding 4611686018427387904"));
  CHECK(refusal({.out_channels = 4, .kernel = 3, .padding = 9, .dilation = 4}).empty());
}

TEST_CASE("a table of positions and its input have dimensions for them") {
  Graph graph;
  const Tensor table = parameter(graph, "table", {3, 4});
  const Tensor row = parameter(graph, "row", {3});
  const auto refusal = [&](Shape input, Tensor positions) {
    return message_of<UsageError>([&] { rows_of_positions(images(graph, std::move(input)), positions); });
  };
  CHECK_THAT(refusal({2, 3}, row), contains("the table 'row' of positions is 3 and its input 2x3"));
  CHECK_THAT(refusal({6}, table), contains("the table 'table' of positions is 3x4 and its input 6"));
  CHECK(refusal({2, 3}, table).empty());
}

TEST_CASE("a tensor of another call of forward is refused") {
  Graph graph;
  Graph other;
  const Tensor x = images(graph, {2, 4});
  images(graph, {3, 4});
  images(other, {2, 4});
  const Tensor weight = parameter(other, "w", {3, 4});
  REQUIRE(graph.value_count() == other.value_count());  // its id is one of `graph`, too, and of this shape
  CHECK(message_of<UsageError>([&] { shared_linear(x, weight); }) ==
        "layer 'w' (linear): a tensor is of another call of forward: make it anew in each call");
  CHECK_THAT(message_of<UsageError>([&] { add(x, images(other, {2, 4})); }), contains("layer 'add' (add)"));
  CHECK_THROWS_AS(Tensor(graph, 7).shape(), UsageError);
  const Model stray{.name = "stray", .forward = [&](Tensor) { return weight; }};
  CHECK(message_of<UsageError>([&] { build_forward(stray, {.shape = {4}, .num_classes = 3}, 2); }) ==
        "model 'stray' gives a tensor of another call of forward: make it anew in each call");
}

TEST_CASE("a tensor whose graph is gone is refused, also where another graph lies in its place") {
  std::optional<Graph> graph(std::in_place);
  const Tensor kept = images(*graph, {2, 4});
  graph.emplace();
  const Tensor x = images(*graph, {2, 4});
  const std::string refusal = "a tensor is of another call of forward: make it anew in each call";
  CHECK(message_of<UsageError>([&] { kept.shape(); }) == refusal);
  CHECK(message_of<UsageError>([&] { relu(kept); }) == refusal);
  CHECK(message_of<UsageError>([&] { cast(kept, DType::bf16); }) == refusal);
  CHECK_THAT(message_of<UsageError>([&] { add(x, kept); }),
             contains("layer 'add' (add)") && contains(refusal));
  Graph copy = *graph;
  CHECK_THROWS_AS(add(Tensor(copy, 0), x), UsageError);
}

TEST_CASE("a model without a function, and a segment without a block, are named") {
  CHECK(message_of<UsageError>([] {
          build_forward({.name = "empty", .forward = {}}, {.shape = {4}, .num_classes = 3}, 2);
        }) == "model 'empty' has no function forward: give it its layers");
  Graph graph;
  CHECK_THAT(message_of<UsageError>([&] {
               segment(images(graph, {2, 4}), {});
             }),
             contains("segment: its block is no function"));
}

TEST_CASE("names that a file of weights cannot keep are refused, in one line") {
  Graph graph;
  const auto refusal = [&](const std::string& name) {
    return message_of<UsageError>([&] { parameter(graph, name, {2}); });
  };
  CHECK_THAT(refusal("__metadata__"), contains(R"(parameter "__metadata__": no file of weights)"));
  CHECK_THAT(refusal("a\nb"), contains(R"(parameter "a\nb": no file of weights)"));
  CHECK_THAT(refusal("a\xff"), contains("no file of weights"));
  CHECK_THROWS_AS(graph.add_buffer("__metadata__", {2}, 0), UsageError);
  CHECK(refusal("layer1.0/größe \"a\"").empty());
  CHECK(graph.parameters().size() == 1);
}

TEST_CASE("what parameters are to start with is finite, and spreads by no negative deviation") {
  Graph graph;
  const auto refusal = [&](Initializer initializer) {
    return message_of<UsageError>([&] { parameter(graph, "p", {2}, initializer); });
  };
  CHECK_THAT(refusal({.bound = std::nanf("")}), contains("parameter 'p' is to start with bound nan"));
  CHECK_THAT(refusal({.start = std::numeric_limits<float>::infinity()}), contains("start inf"));
  CHECK_THAT(refusal({.deviation = std::numeric_limits<float>::infinity()}), contains("deviation inf"));
  CHECK_THAT(refusal({.deviation = -1}), contains("deviation -1"));
  CHECK(refusal({.start = 1, .deviation = 0.5F}).empty());
}

TEST_CASE("parameters start in PyTorch's bounds") {
  Graph graph;
  conv2d(images(graph, {1, 4, 8, 8}), "conv", {.out_channels = 2, .kernel = 5});
  for (const Parameter& parameter : graph.parameters()) {
    CHECK(parameter.initializer.bound == 0.1F);  // 1 / sqrt(4 * 5 * 5)
  }
}

TEST_CASE("the network alone has no loss, and its nodes are those of training and evaluation") {
  const Model model{.name = "head", .forward = [](Tensor x) { return linear(relu(x), "head", 3); }};
  const InputSpec input{.shape = {4}, .num_classes = 3};
  const Graph forward = build_forward(model, input, 2);
  CHECK(forward.value(forward.output).type.shape == Shape{2, 3});
  CHECK(forward.find(Role::target) == no_value);
  CHECK(forward.find(Role::step_state) == no_value);
  CHECK(forward.find(Role::control) == no_value);
  for (const bool training : {false, true}) {
    const Graph graph = build_graph(model, input, 2, training);
    REQUIRE(graph.nodes().size() == forward.nodes().size() + 1);
    CHECK(graph.output == forward.output);
    CHECK(graph.find(Role::control) != no_value);
    for (std::size_t at = 0; at < forward.nodes().size(); ++at) {
      CHECK(graph.nodes()[at].key() == forward.nodes()[at].key());
    }
  }
}

TEST_CASE("a graph that decodes is all of forward, the table of positions too") {
  const Model model{.name = "writer", .forward = [](Tensor x) {
                      return linear(position_encoding(embedding(x, "wte", 9, 4)), "head", 9);
                    }};
  const InputSpec input{.shape = {8}, .num_classes = 9, .target_shape = {8}, .dtype = DType::i64};
  const Graph graph = build_decoding(model, input, 2, 1, 8);
  REQUIRE(std::ranges::any_of(graph.nodes(), [](const Node& node) { return node.op->name() == "fill"; }));
  for (const Node& node : graph.nodes()) {
    INFO(node.key());
    CHECK(node.phase == Phase::forward);
  }
}

TEST_CASE("views follow PyTorch's rules") {
  Graph graph;
  const Tensor x = images(graph, {2, 3, 4, 1});
  CHECK(permute(x, {0, 2, 3, 1}).shape() == Shape{2, 4, 1, 3});
  CHECK(reshape(x, {6, 4}).shape() == Shape{6, 4});
  CHECK(expand(x, {2, 3, 4, 5}).shape() == Shape{2, 3, 4, 5});
  CHECK_THAT(message_of<UsageError>([&] { permute(x, {0, 1, 1, 2}); }), contains("0x1x1x2"));
  CHECK_THAT(message_of<UsageError>([&] { reshape(x, {5, 4}); }), contains("as many elements"));
  CHECK_THAT(message_of<UsageError>([&] { expand(x, {2, 3, 5, 1}); }), contains("do not broadcast"));
}

TEST_CASE("a model and a data set that do not fit are told apart") {
  const Model model{.name = "head", .forward = [](Tensor x) { return linear(x, "head", 10); }};
  const InputSpec values{.shape = {4}, .num_classes = 0, .target_shape = {1}};
  CHECK_THAT(message_of<UsageError>([&] { build_graph(model, values, 2, true); }),
             contains("learns classes"));
  const InputSpec classes{.shape = {4}, .num_classes = 3};
  CHECK_THAT(message_of<UsageError>([&] { build_graph(model, classes, 2, true); }),
             contains("gives 2x10") && contains("3 classes"));
}

TEST_CASE("a class for each token: what the model gives, what the loss takes, and what does not fit") {
  const auto head = [](std::int64_t classes) {
    return Model{.name = "tagger", .forward = [classes](Tensor x) {
                   return linear(embedding(split(x, {2, x.shape()[1] - 2}, 1).back(), "embedding", 9, 4),
                                 "head", classes);
                 }};
  };
  const InputSpec pairs{.shape = {7},
                        .num_classes = 9,
                        .target_shape = {5},
                        .dtype = DType::i64,
                        .vocab_size = 9,
                        .source_length = 2};
  const Graph graph = build_graph(head(9), pairs, 3, true);
  CHECK(graph.value(graph.find(Role::input)).type == ValueType{DType::i64, {3, 7}});
  CHECK(graph.value(graph.find(Role::target)).type == ValueType{DType::i64, {3, 5}});
  CHECK(graph.value(graph.output).type.shape == Shape{3, 5, 9});
  CHECK(token_parameters(graph) == std::vector<std::string>{"embedding.weight"});

  const InputSpec cut = cut_to(pairs, 4);
  CHECK(cut.shape == Shape{4});
  CHECK(cut.target_shape == Shape{2});
  CHECK(build_forward(head(9), cut, 3).parameter_elements() == graph.parameter_elements());
  CHECK(cut_to(pairs, 0).shape == Shape{7});

  CHECK(message_of<UsageError>([&] { build_forward(head(8), pairs, 3); }) ==
        "model 'tagger' gives 3x5x8 but the data set has 9 classes for each of 5 tokens of a sample");
  InputSpec one_class = pairs;
  one_class.target_shape = {};
  CHECK_THAT(message_of<UsageError>([&] { build_forward(head(9), one_class, 3); }), contains("gives 3x5x9"));
}

}  // namespace
}  // namespace lockstep::model
