#include <algorithm>
#include <vector>

#include "kernels/split.h"
#include "kernels/view.h"
#include "model/layers.h"
#include "runtime/plan/allocate.h"
#include "runtime/plan/passes/passes.h"
#include "tests/support/catch.h"

namespace lockstep::runtime {
namespace {

using model::Graph;
using model::Role;
using model::Tensor;

Tensor value_of(Graph& graph, const Shape& shape, Role role = Role::activation) {
  return {graph, graph.add_value("x", {DType::f32, shape}, role)};
}

template <class Op>
std::ptrdiff_t count_of(const Graph& graph) {
  return std::ranges::count_if(graph.nodes(),
                               [](const model::Node& node) { return node.op->as<Op>() != nullptr; });
}

/// How many views the parts of x become.
std::ptrdiff_t views_of_split(Graph& graph, Tensor x, const std::vector<std::int64_t>& sizes,
                              std::int64_t dim) {
  split(x, sizes, dim);
  view_splits(graph);
  CHECK(count_of<kernels::Split>(graph) == (count_of<kernels::Narrow>(graph) == 0 ? 1 : 0));
  return count_of<kernels::Narrow>(graph);
}

TEST_CASE("view_splits: parts in one piece lie in the memory of the whole, one behind another") {
  Graph graph;
  const Tensor x = value_of(graph, {7, 2, 16});
  const std::vector<Tensor> parts = split(x, {1, 4, 2}, 0);
  const std::vector<Tensor> halves = split(parts[1], {2, 2}, 0);
  view_splits(graph);
  CHECK(count_of<kernels::Split>(graph) == 0);
  const ActivationPlan plan = allocate_activations(graph);
  const auto offset = [&](const Tensor& part) {
    CHECK(plan.storage[static_cast<std::size_t>(part.id())] == x.id());
    return plan.view_offsets[static_cast<std::size_t>(part.id())];
  };
  constexpr std::size_t step = 2 * 16 * sizeof(float);
  CHECK(offset(parts[0]) == 0);
  CHECK(offset(parts[1]) == step);
  CHECK(offset(parts[2]) == 5 * step);
  CHECK(offset(halves[0]) == step);
  CHECK(offset(halves[1]) == 3 * step);
  CHECK(plan.view_offsets[static_cast<std::size_t>(x.id())] == 0);
}

TEST_CASE("view_splits: the whole stays as it is while a part is read") {
  Graph graph;
  const Tensor x = relu(value_of(graph, {4, 16}, Role::input));
  const Tensor rest = split(x, {1, 3}, 0)[1];
  const Tensor other = relu(x);
  relu(rest);
  view_splits(graph);
  CHECK(allocate_activations(graph).storage[static_cast<std::size_t>(other.id())] == other.id());
}

TEST_CASE("view_splits: parts that are not in one piece, or not each on a line of memory, are copies") {
  Graph graph;
  CHECK(views_of_split(graph, value_of(graph, {2, 4, 16}), {2, 2}, 1) == 0);
  graph = {};
  CHECK(views_of_split(graph, value_of(graph, {1, 4, 16}), {2, 2}, 1) == 2);
  graph = {};
  CHECK(views_of_split(graph, value_of(graph, {4, 15}), {1, 3}, 0) == 0);
  graph = {};
  CHECK(views_of_split(graph, value_of(graph, {32, 15}), {16, 16}, 0) == 2);
}

TEST_CASE("view_splits: parts of what a batch brings, and gradients, are copies") {
  Graph graph;
  CHECK(views_of_split(graph, value_of(graph, {4, 16}, Role::input), {2, 2}, 0) == 0);
  graph = {};
  CHECK(views_of_split(graph, reshape(value_of(graph, {64}, Role::input), {4, 16}), {2, 2}, 0) == 0);
  graph = {};
  const std::vector<Tensor> parts = split(value_of(graph, {4, 16}), {2, 2}, 0);
  graph.value(parts[1].id()).role = Role::gradient;
  view_splits(graph);
  CHECK(count_of<kernels::Split>(graph) == 1);
}

TEST_CASE("narrow: a part that the whole does not have is refused") {
  const kernels::TensorType whole{DType::f32, {4, 16}};
  const auto infer = [&](const Shape& shape, std::int64_t first) {
    return kernels::Narrow(shape, first).infer(std::span(&whole, 1));
  };
  CHECK(infer({2, 16}, 32).front() == kernels::TensorType{DType::f32, {2, 16}});
  CHECK_THROWS(infer({2, 16}, 33));
  CHECK_THROWS(infer({1, 16}, -1));
}

}  // namespace
}  // namespace lockstep::runtime
