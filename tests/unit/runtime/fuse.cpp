#include "runtime/plan/passes/passes.h"

#include <algorithm>

#include "tests/support/catch.h"
#include "tests/unit/runtime/small_plans.h"

namespace lockstep::runtime {
namespace {

using model::Graph;
using model::Tensor;
using testing::classifier;
using testing::images;
using testing::ops_of;
using testing::small_net;

TEST_CASE("fuse: relu into its producer, its gradient into pooling, flatten into the linear layer") {
  Graph graph = build_graph(classifier(small_net), images, 4, true);
  differentiate(graph);
  fuse(graph);
  CHECK(ops_of(graph) == std::vector<std::string>{"conv2d+", "max_pool2d", "linear+", "linear",
                                                  "softmax_cross_entropy", "linear_backward_weights",
                                                  "linear_backward_data", "relu_backward",
                                                  "linear_backward_weights", "linear_backward_data",
                                                  "max_pool2d_backward+", "conv2d_backward_weights"});
  const auto fc1 = std::ranges::find_if(graph.parameters(), [&](const model::Parameter& p) {
    return graph.value(p.value).name == "fc1.weight";
  });
  CHECK(fc1->file_shape == Shape{6, 64});
  CHECK(graph.value(fc1->value).type.shape == Shape{6, 4, 4, 4});
  CHECK(graph.value(fc1->gradient).type.shape == Shape{6, 4, 4, 4});
}

/// The values that nodes of backward read and forward wrote.
bool is_kept(const Graph& graph, model::ValueId id) {
  return std::ranges::any_of(graph.nodes(), [&](const model::Node& node) {
    return node.phase == model::Phase::backward && std::ranges::count(node.inputs, id) > 0;
  });
}

TEST_CASE("keep_pool_indices: backward reads a byte an output, and the pool's input is not kept") {
  Graph graph = build_graph(classifier(small_net), images, 4, true);
  differentiate(graph);
  fuse(graph);
  const auto pool = std::ranges::find_if(
      graph.nodes(), [](const model::Node& node) { return node.op->name() == "max_pool2d"; });
  CHECK(is_kept(graph, pool->inputs[0]));
  keep_pool_indices(graph);
  CHECK(ops_of(graph)[1] == "max_pool2d_with_indices+");
  CHECK(ops_of(graph)[10] == "max_pool2d_with_indices_backward");
  REQUIRE(pool->outputs.size() == 2);
  CHECK(graph.value(pool->outputs[1]).type == model::ValueType{DType::u8, {4, 4, 4, 4}});
  CHECK(is_kept(graph, pool->outputs[1]));
  CHECK_FALSE(is_kept(graph, pool->inputs[0]));
}

TEST_CASE("keep_pool_indices: evaluation keeps nothing, nor does a window that no byte describes") {
  const auto pooled = [](std::int64_t kernel) {
    return classifier([kernel](Tensor x) {
      x = conv2d(x, "conv", {.out_channels = 2, .kernel = 1, .padding = 5});
      return linear(flatten(max_pool2d(x, {.kernel = kernel})), "head", 10);
    });
  };
  const auto count = [](const Graph& graph) {
    return std::ranges::count(ops_of(graph), "max_pool2d_with_indices");
  };
  for (const std::int64_t kernel : {15, 16}) {
    Graph graph = build_graph(pooled(kernel), images, 4, true);
    keep_pool_indices(graph);
    CHECK(count(graph) == 0);
    differentiate(graph);
    keep_pool_indices(graph);
    CHECK(count(graph) == (kernel == 15 ? 1 : 0));
  }
}

TEST_CASE("keep_pool_indices: two pools of the same input, one before a relu's gradient") {
  Graph graph = build_graph(classifier([](Tensor x) {
                              const Tensor h = relu(conv2d(x, "conv", {.out_channels = 2, .kernel = 1}));
                              const Tensor small = max_pool2d(h);
                              const Tensor same = max_pool2d(h);
                              return linear(flatten(add(small, mul(same, same))), "head", 10);
                            }),
                            images, 4, true);
  differentiate(graph);
  fuse(graph);
  keep_pool_indices(graph);
  CHECK(std::ranges::count(ops_of(graph), "max_pool2d_backward") == 0);
  CHECK(std::ranges::count(ops_of(graph), "max_pool2d_with_indices_backward") == 2);
}

TEST_CASE("fuse: a relu stays when its input is read by others too") {
  Graph graph = build_graph(classifier([](Tensor x) {
                              const Tensor h = linear(flatten(x), "a", 10);
                              return add(relu(h), h);
                            }),
                            images, 4, true);
  fuse(graph);
  CHECK(std::ranges::count(ops_of(graph), "relu+add") == 1);
}

}  // namespace
}  // namespace lockstep::runtime
