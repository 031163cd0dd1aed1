#include "runtime/plan/passes/passes.h"

#include <algorithm>

#include "kernels/base/error.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/unit/runtime/small_plans.h"

namespace lockstep::runtime {
namespace {

using model::Graph;
using model::Tensor;
using testing::classifier;
using testing::images;
using testing::ops_of;
using testing::small_net;

TEST_CASE("differentiate: weights before data, in reverse, and no gradient of the input") {
  Graph graph = build_graph(classifier(small_net), images, 4, true);
  differentiate(graph);
  CHECK(ops_of(graph) == std::vector<std::string>{
                             "conv2d", "relu", "max_pool2d", "reshape", "linear", "relu", "linear",
                             "softmax_cross_entropy", "linear_backward_weights", "linear_backward_data",
                             "relu_backward", "linear_backward_weights", "linear_backward_data", "reshape",
                             "max_pool2d_backward", "relu_backward", "conv2d_backward_weights"});
  for (const model::Parameter& parameter : graph.parameters()) {
    CHECK(graph.value(parameter.gradient).role == model::Role::gradient);
  }
}

TEST_CASE("differentiate: a value used twice gets the sum of both gradients") {
  Graph graph = build_graph(classifier([](Tensor x) {
                              const Tensor h = linear(flatten(x), "a", 10);
                              return add(relu(h), h);
                            }),
                            images, 4, true);
  differentiate(graph);
  CHECK(std::ranges::count(ops_of(graph), "add") == 2);  // one forward, one of gradients
}

TEST_CASE("differentiate: no node reads a parameter's gradient, where several have the same one, too") {
  Graph graph =
      build_graph(classifier([](Tensor x) {
                    const auto vector = [&](const char* name) { return parameter(x.graph(), name, {10}); };
                    return add(linear(flatten(x), "fc", 10), add(add(vector("a"), vector("b")), vector("c")));
                  }),
                  images, 4, true);
  differentiate(graph);
  std::vector<model::ValueId> gradients;
  for (const model::Parameter& parameter : graph.parameters()) {
    INFO(graph.value(parameter.value).name);
    CHECK(graph.value(parameter.gradient).role == model::Role::gradient);
    CHECK(graph.value(parameter.gradient).name == "gradient of " + graph.value(parameter.value).name);
    CHECK(graph.uses(parameter.gradient) == 0);
    CHECK(std::ranges::count(gradients, parameter.gradient) == 0);
    gradients.push_back(parameter.gradient);
  }
  CHECK(std::ranges::count(ops_of(graph), "reorder") == 3);
}

Tensor net_with_unused(Tensor x) {
  conv2d(x, "spare", {.out_channels = 16, .kernel = 3});
  const Tensor y = linear(flatten(x), "head", 10);
  x.graph().add_parameter("lost", {5}, {.bound = 1});
  return y;
}

TEST_CASE("differentiate: parameters without influence are all named") {
  Graph graph = build_graph(classifier(net_with_unused), images, 4, true);
  CHECK_THAT(tests::message_of<UsageError>([&] { differentiate(graph); }),
             tests::contains("no gradient from the loss reaches 'spare.weight', 'spare.bias', 'lost': ") &&
                 tests::contains("--allow-unused"));
}

TEST_CASE("differentiate: where it is allowed, parameters without influence get zeros") {
  Graph graph = build_graph(classifier(net_with_unused), images, 4, true);
  differentiate(graph, true);
  CHECK(std::ranges::count(ops_of(graph), "fill") == 3);
  for (const model::Parameter& parameter : graph.parameters()) {
    CHECK(graph.value(parameter.gradient).role == model::Role::gradient);
    CHECK(graph.value(parameter.gradient).type == graph.value(parameter.value).type);
  }
}

}  // namespace
}  // namespace lockstep::runtime
