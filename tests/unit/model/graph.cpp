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
