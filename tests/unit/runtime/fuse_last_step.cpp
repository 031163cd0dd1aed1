#include <algorithm>

#include "kernels/recurrent.h"
#include "kernels/sequence.h"
#include "model/zoo/zoo.h"
#include "runtime/plan/passes/passes.h"
#include "tests/support/catch.h"

namespace lockstep::runtime {
namespace {

using model::Graph;
using model::Tensor;

constexpr std::int64_t rows = 4;

/// The small network of `model` behind differentiation, with what `head` makes of the layers' output.
template <class Head>
Graph differentiated(const Head& head) {
  const model::InputSpec input{.shape = {5}, .num_classes = 3, .dtype = DType::i64, .vocab_size = 9};
  const model::Model network{.name = "test", .forward = [&](Tensor x) {
                               const Tensor lengths = sequence_lengths(x);
                               const Tensor steps = embedding(steps_first(x), "embedding", 9, 6);
                               const Tensor y = lstm(steps, "lstm", {.hidden = 8, .layers = 2}, lengths).y;
                               return linear(head(y, lengths), "fc", 3);
                             }};
  Graph graph = model::build_graph(network, input, rows, true);
  differentiate(graph);
  fuse(graph);
  fuse_last_step(graph);
  return graph;
}

template <class Op>
std::ptrdiff_t count_of(const Graph& graph) {
  return std::ranges::count_if(graph.nodes(),
                               [](const model::Node& node) { return node.op->as<Op>() != nullptr; });
}

/// Layers whose gradient comes from the last step alone.
std::ptrdiff_t from_last(const Graph& graph) {
  return std::ranges::count_if(graph.nodes(), [](const model::Node& node) {
    const auto* const op = node.op->as<kernels::LstmBackward>();
    return op != nullptr && op->last;
  });
}

TEST_CASE("fuse_last_step: the gradient of each row's last step goes to the last layer as it is") {
  const Graph graph = differentiated([](Tensor y, Tensor lengths) { return last_step(y, lengths); });
  CHECK(count_of<kernels::LastStepBackward>(graph) == 0);
  CHECK(count_of<kernels::LstmBackward>(graph) == 2);
  CHECK(from_last(graph) == 1);
  const auto last = std::ranges::find_if(
      graph.nodes(), [](const model::Node& node) { return node.op->as<kernels::LstmBackward>() != nullptr; });
  CHECK(graph.value(last->inputs[kernels::LstmBackward::dy]).type.shape == Shape{rows, 8});
}

TEST_CASE("fuse_last_step: not where other steps are read too, nor where a row's last step is another one") {
  const Graph both = differentiated(
      [](Tensor y, Tensor lengths) { return add(last_step(y, lengths), last_step(tanh(y), lengths)); });
  CHECK(from_last(both) == 0);
  const Graph whole = differentiated([](Tensor y, Tensor) { return last_step(y); });
  CHECK(count_of<kernels::LastStepBackward>(whole) == 1);
  CHECK(from_last(whole) == 0);
}

}  // namespace
}  // namespace lockstep::runtime
