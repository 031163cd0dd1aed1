#include "runtime/plan/passes.h"

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
