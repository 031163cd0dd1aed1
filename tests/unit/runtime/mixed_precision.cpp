#include <algorithm>
#include <map>

#include "kernels/cast.h"
#include "kernels/conv2d.h"
#include "kernels/layer_norm.h"
#include "kernels/linear.h"
#include "kernels/loss.h"
#include "kernels/pool2d.h"
#include "model/spec_op.h"
#include "runtime/plan/passes.h"
#include "tests/support/catch.h"
#include "tests/unit/runtime/small_plans.h"

namespace lockstep::runtime {
namespace {

using model::Graph;
using model::Tensor;
using testing::classifier;
using testing::images;
using testing::small_net;

Graph cast_graph(const std::function<Tensor(Tensor)>& forward, bool training = true) {
  Graph graph = build_graph(classifier(forward), images, 4, training);
  autocast(graph, DType::bf16);
  return graph;
}

Plan mixed_plan(const kernels::Device& device, Mode mode, DType gradients = DType::f32) {
  return make_plan(classifier(small_net), images, {.key = {.mode = mode, .batch = 4}}, device,
                   {.compute_dtype = DType::bf16, .gradient_dtype = gradients});
}

/// The types of a node's inputs and outputs: "bf16 bf16 bf16 -> bf16".
std::string types_of(const Graph& graph, const model::Node& node) {
  std::string text;
  for (const model::ValueId id : node.inputs) text += std::string(name_of(graph.value(id).type.dtype)) + " ";
  text += "->";
  for (const model::ValueId id : node.outputs) text += " " + std::string(name_of(graph.value(id).type.dtype));
  return text;
}

/// Of the first node of that op.
template <class Op>
std::string types_at(const Graph& graph) {
  const auto at = std::ranges::find_if(graph.nodes(),
                                       [](const model::Node& node) { return node.op->as<Op>() != nullptr; });
  REQUIRE(at != graph.nodes().end());
  return types_of(graph, *at);
}

std::size_t count_of(const Graph& graph, const std::string& op) {
  return static_cast<std::size_t>(
      std::ranges::count_if(graph.nodes(), [&](const model::Node& node) { return node.op->name() == op; }));
}

TEST_CASE("mixed precision: each op has the type of autocast's lists") {
  const Graph graph = cast_graph([](Tensor x) {
    x = max_pool2d(relu(conv2d(x, "conv", {.out_channels = 4, .kernel = 3})));
    x = layer_norm(linear(flatten(x), "fc", 6), "norm");
    return linear(add(x, tanh(linear(x, "side", 6))), "head", 10);
  });
  CHECK(types_at<kernels::Conv2d>(graph) == "bf16 bf16 bf16 -> bf16");
  CHECK(types_at<kernels::MaxPool2d>(graph) == "bf16 -> bf16");
  CHECK(types_at<kernels::Linear>(graph) == "bf16 bf16 bf16 -> bf16");
  CHECK(types_at<kernels::LayerNorm>(graph) == "f32 f32 f32 -> f32 f32 f32");
  CHECK(types_at<kernels::SoftmaxCrossEntropy>(graph) == "f32 i64 u8 -> u8 f32");
  std::map<std::string, std::string> pointwise;
  for (const model::Node& node : graph.nodes()) {
    const std::string name = node.op->name();
    if (name == "relu" || name == "tanh" || name == "add") pointwise[name] = types_of(graph, node);
  }
  CHECK(pointwise["relu"] == "bf16 -> bf16");
  CHECK(pointwise["tanh"] == "bf16 -> bf16");
  CHECK(pointwise["add"] == "f32 f32 -> f32");  // the widest: the norm gives f32
}

TEST_CASE("mixed precision: a value is cast once for all of its readers") {
  const Graph graph = cast_graph([](Tensor x) {
    x = flatten(x);
    return add(linear(x, "a", 10), linear(x, "b", 10));
  });
  // x, two weights, two biases; the sum to f32 for the loss.
  CHECK(count_of(graph, "cast") == 6);
}

TEST_CASE("mixed precision: what the network gives is f32, integers stay, f32 changes nothing") {
  const Graph graph = cast_graph(small_net, false);
  CHECK(graph.value(graph.output).type.dtype == DType::f32);
  CHECK(graph.value(graph.find(model::Role::target)).type.dtype == DType::i64);
  Graph same = build_graph(classifier(small_net), images, 4, true);
  const std::size_t nodes = same.nodes().size();
  autocast(same, DType::f32);
  CHECK(same.nodes().size() == nodes);
}

TEST_CASE("mixed precision: parameters, gradients and updates are f32, and weights' sums are not rounded") {
  const auto device = kernels::make_cpu_device(1);
  const Plan plan = mixed_plan(*device, Mode::train);
  for (const model::Parameter& parameter : plan.graph.parameters()) {
    CHECK(plan.graph.value(parameter.value).type.dtype == DType::f32);
    CHECK(plan.graph.value(parameter.gradient).type.dtype == DType::f32);
    CHECK(plan.graph.value(parameter.gradient).layout == plan.graph.value(parameter.value).layout);
  }
  CHECK(types_at<kernels::Conv2dBackwardWeights>(plan.graph) == "bf16 bf16 -> f32 f32");
  CHECK(types_at<kernels::LinearBackwardWeights>(plan.graph) == "bf16 bf16 -> f32 f32");
}

TEST_CASE("mixed precision: a parameter has the layout of its copy, and flatten still costs nothing") {
  const auto device = kernels::make_cpu_device(1);
  const auto mode = GENERATE(Mode::train, Mode::evaluate);
  const Plan plan = mixed_plan(*device, mode);
  CHECK(count_of(plan.graph, "reshape") == 0);
  for (const model::Node& node : plan.graph.nodes()) {
    if (node.op->as<kernels::Cast>() == nullptr) continue;
    const model::Value& original = plan.graph.value(node.inputs[0]);
    if (original.role != model::Role::parameter) continue;
    CHECK(plan.graph.value(node.outputs[0]).layout == original.layout);
  }
}

TEST_CASE("mixed precision: gradients in bf16 have an arena of half the bytes, on lines of their own") {
  const auto device = kernels::make_cpu_device(1);
  const Plan plan = mixed_plan(*device, Mode::train, DType::bf16);
  CHECK(plan.arena.gradient_dtype == DType::bf16);
  CHECK(plan.arena.gradient_bytes() * 2 == plan.arena.bytes());
  for (const ArenaSlice& slice : plan.arena.slices) {
    CHECK(slice.first % elements_of_a_line(DType::bf16) == 0);
  }
  CHECK(types_at<kernels::LinearBackwardWeights>(plan.graph) == "bf16 bf16 -> bf16 bf16");
  const Plan rounded = make_plan(classifier(small_net), images, {.key = {.batch = 4}}, *device,
                                 {.gradient_dtype = DType::bf16});
  CHECK(types_at<kernels::LinearBackwardWeights>(rounded.graph) == "f32 f32 -> f32 f32");
  for (const model::Parameter& parameter : rounded.graph.parameters()) {
    CHECK(rounded.graph.value(parameter.gradient).type.dtype == DType::bf16);
  }
}

}  // namespace
}  // namespace lockstep::runtime
