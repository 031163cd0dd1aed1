#include <algorithm>

#include "kernels/linear_gelu.h"
#include "runtime/performance/kernel_work.h"
#include "runtime/plan/passes/passes.h"
#include "tests/support/catch.h"
#include "tests/unit/runtime/small_plans.h"

namespace lockstep::runtime {
namespace {

using kernels::LinearBackwardGelu;
using kernels::LinearGelu;
using model::Graph;
using model::Node;
using model::Tensor;
using testing::classifier;
using testing::images;
using testing::ops_of;

Tensor perceptron(Tensor x) {
  return linear(gelu_tanh(linear(flatten(x), "fc", 16)), "head", 10);
}

Graph fused(const std::function<Tensor(Tensor)>& forward, bool training = true, DType compute = DType::bf16) {
  Graph graph = build_graph(classifier(forward), images, 4, training);
  autocast(graph, compute);
  if (training) differentiate(graph);
  fuse(graph);
  fuse_gelu(graph);
  return graph;
}

template <class Op>
const Node& node_of(const Graph& graph) {
  const auto at =
      std::ranges::find_if(graph.nodes(), [](const Node& node) { return node.op->as<Op>() != nullptr; });
  REQUIRE(at != graph.nodes().end());
  return *at;
}

std::ptrdiff_t count_of(const Graph& graph, const std::string& name) {
  return std::ranges::count(ops_of(graph), name);
}

TEST_CASE("fuse_gelu: into the product before it, its gradient into that of the one behind it") {
  const Graph graph = fused(perceptron);
  CHECK(count_of(graph, "gelu_tanh") + count_of(graph, "gelu_tanh_backward") == 0);
  const Node& forward = node_of<LinearGelu>(graph);
  const Node& backward = node_of<LinearBackwardGelu>(graph);
  CHECK(forward.layer == "fc");
  CHECK(forward.inputs.size() == 3);
  REQUIRE(forward.outputs.size() == 2);
  CHECK(backward.inputs[LinearBackwardGelu::pre] == forward.outputs[LinearGelu::pre]);
  // What the weights' gradients read is what the function gives, and its gradient.
  const auto reads = [&](model::ValueId id, const std::string& layer, std::size_t input) {
    return std::ranges::any_of(graph.nodes(), [&](const Node& node) {
      return node.op->name() == "linear_backward_weights" && node.layer == layer && node.inputs[input] == id;
    });
  };
  CHECK(reads(forward.outputs[LinearGelu::y], "head", 0));
  CHECK(reads(backward.outputs[LinearBackwardGelu::dpre], "fc", 1));
}

TEST_CASE("fuse_gelu: evaluation keeps nothing for backward") {
  const Graph graph = fused(perceptron, false);
  CHECK(node_of<LinearGelu>(graph).outputs.size() == 1);
}

TEST_CASE("fuse_gelu: f32, other functions and several readers of a gradient stay as they are") {
  CHECK(count_of(fused(perceptron, true, DType::f32), "linear_gelu") == 0);
  const auto exact = [](Tensor x) { return linear(gelu(linear(flatten(x), "fc", 16)), "head", 10); };
  CHECK(count_of(fused(exact), "linear_gelu") == 0);
  const Graph branched = fused([](Tensor x) {
    const Tensor h = gelu_tanh(linear(flatten(x), "fc", 16));
    return add(linear(h, "a", 10), linear(h, "b", 10));
  });
  CHECK(count_of(branched, "linear_gelu") == 1);
  CHECK(count_of(branched, "linear_backward_gelu") == 0);
}

TEST_CASE("fuse_gelu: a product that others read too still gives what it gave") {
  const Graph graph = fused(
      [](Tensor x) {
        const Tensor h = linear(flatten(x), "fc", 16);
        return add(linear(gelu_tanh(h), "a", 10), linear(h, "b", 10));
      },
      false);
  CHECK(node_of<LinearGelu>(graph).outputs.size() == 2);
}

/// Of the library's own, which ends in the function.
struct OneKernel : kernels::Kernel {
  std::unique_ptr<kernels::BoundKernel> bind(std::span<void* const>, void*) const override { return nullptr; }
};

TEST_CASE("fuse_gelu: a plan counts a pass where the function is one, and the product's bytes where not") {
  const auto device = kernels::make_cpu_device(1);  // whose kernels are two
  Plan plan;
  plan.graph = fused(perceptron);
  assign_layouts(plan.graph, *device, {});
  plan.launches.nodes = prepare_nodes(plan.graph, *device);
  for (std::size_t at = 0; at < plan.graph.nodes().size(); ++at) {
    const Node& node = plan.graph.nodes()[at];
    const bool backward = node.op->as<LinearBackwardGelu>() != nullptr;
    if (node.op->as<LinearGelu>() == nullptr && !backward) continue;
    Launch& launch = plan.launches.nodes[at];
    const Step step{.kind = Step::Kind::launch, .index = at};
    const double result = static_cast<double>(launch.io.outputs[0].bytes());
    const double flops = 2.0 * 4 * 16 * (backward ? 10 : 192);
    const auto apart = work_of(plan, step);
    REQUIRE(apart.size() == 2);
    CHECK(apart[0].flops == flops);
    CHECK(apart[0].bytes == bytes_of(launch.io) - result);
    CHECK(apart[1].kind == WorkKind::pass);
    CHECK(apart[1].bytes == (backward ? 3 : 2) * result);
    launch.kernel = std::make_unique<OneKernel>();
    const auto whole = work_of(plan, step);
    REQUIRE(whole.size() == 1);
    CHECK((whole[0].kind == WorkKind::product && whole[0].unit == MathUnit::half));
    CHECK((whole[0].flops == flops && whole[0].bytes == bytes_of(launch.io)));
  }
}

TEST_CASE("fuse_gelu: on a CPU products stay products") {
  const auto device = kernels::make_cpu_device(1);
  const Plan plan = make_plan(classifier(perceptron), images, {.key = {.batch = 4}}, *device,
                              {.compute_dtype = DType::bf16});
  CHECK(count_of(plan.graph, "gelu_tanh") == 1);
}

}  // namespace
}  // namespace lockstep::runtime
