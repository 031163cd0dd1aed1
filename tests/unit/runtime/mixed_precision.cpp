#include <algorithm>
#include <map>

#include "kernels/cast.h"
#include "kernels/conv2d.h"
#include "kernels/embedding.h"
#include "kernels/layer_norm.h"
#include "kernels/linear.h"
#include "kernels/loss.h"
#include "kernels/pool2d.h"
#include "kernels/position_encoding.h"
#include "model/spec_op.h"
#include "runtime/plan/passes/passes.h"
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

TEST_CASE("mixed precision: positions and rows of tables are f32, behind a layer too") {
  const model::InputSpec tokens{
      .shape = {5}, .num_classes = 10, .target_shape = {5}, .dtype = DType::i64, .vocab_size = 16};
  const auto net = [](Tensor x) {
    const Tensor table = linear(embedding_weight(x.graph(), "table", 16, 4), "wide", 6);
    return linear(position_encoding(linear(embedding(x, table), "in", 6)), "head", 10);
  };
  Graph graph = build_graph(classifier(net), tokens, 4, true);
  autocast(graph, DType::bf16);
  CHECK(types_at<kernels::Embedding>(graph) == "i64 f32 -> f32");
  CHECK(types_at<kernels::PositionEncoding>(graph) == "f32 -> f32");
}

/// A transformer's block: x + half of the norm's own, twice.
Graph block_graph(bool in_segments) {
  Graph graph = cast_graph([&](Tensor x) {
    x = flatten(x);
    const auto block = [](Tensor in) { return add(in, linear(layer_norm(in, "first"), "a", in.shape()[1])); };
    x = in_segments ? segment(x, block) : block(x);
    return linear(layer_norm(x, "last"), "head", 10);
  });
  fuse_layer_norm(graph, in_segments);
  return graph;
}

TEST_CASE("mixed precision: a norm adds a branch in the half type and writes its result in it") {
  Graph graph = block_graph(false);
  std::vector<std::string> norms;
  const auto keep_types = [&](const char* name) {
    norms.clear();
    for (const model::Node& node : graph.nodes())
      if (node.op->name() == name) norms.push_back(types_of(graph, node));
  };
  keep_types("layer_norm");
  CHECK(norms ==
        std::vector<std::string>{"f32 f32 f32 -> bf16 f32 f32", "f32 f32 f32 bf16 -> bf16 f32 f32 f32"});
  // Two weights, two biases, the network's result: none between layers.
  CHECK(count_of(graph, "cast") == 5);
  differentiate(graph);
  keep_types("layer_norm_backward");
  CHECK(norms == std::vector<std::string>{"bf16 f32 f32 f32 f32 -> f32 f32 f32 bf16",
                                          "bf16 f32 f32 f32 f32 -> f32 f32 f32"});
}

TEST_CASE("mixed precision: a norm drops from the branch itself, and so does its backward") {
  const auto graph_of = [](double dropped) {
    Graph graph = cast_graph([=](Tensor x) {
      x = linear(flatten(x), "in", 8);
      const Tensor y = layer_norm(add(layer_norm(x, "x"), dropout(linear(x, "branch", 8), dropped)), "norm");
      return linear(y, "head", 10);
    });
    fuse_layer_norm(graph, false);
    return graph;
  };
  Graph graph = graph_of(0.25);
  CHECK(count_of(graph, "dropout") == 0);
  const auto norm = std::ranges::find_if(graph.nodes(), [](const model::Node& node) {
    return node.op->as<kernels::LayerNorm>() != nullptr && node.inputs.size() > kernels::LayerNorm::state;
  });
  REQUIRE(norm != graph.nodes().end());
  CHECK(norm->op->as<kernels::LayerNorm>()->dropout.p == 0.25);
  CHECK(types_of(graph, *norm) == "f32 f32 f32 bf16 u8 -> bf16 f32 f32 f32");
  differentiate(graph);
  CHECK(count_of(graph, "dropout") == 1);  // its total has no other gradient
  CHECK(count_of(graph_of(0), "dropout") == 0);
}

TEST_CASE("mixed precision: a norm takes up no cast of another segment") {
  const Graph graph = block_graph(true);
  for (const model::Node& node : graph.nodes()) {
    if (node.op->as<kernels::LayerNorm>() == nullptr) continue;
    CHECK(node.inputs.size() == kernels::LayerNorm::residual);
  }
  CHECK(count_of(graph, "cast") == 6);  // the branch is cast for the add between the segments
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

/// Whether a node casts a parameter.
bool casts_parameters(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [&](const model::Node& node) {
    return node.op->as<kernels::Cast>() != nullptr &&
           graph.value(node.inputs[0]).role == model::Role::parameter;
  });
}

TEST_CASE("mixed precision: a copy has its parameter's layout, and flatten still costs nothing") {
  const auto device = kernels::make_cpu_device(1);
  const auto mode = GENERATE(Mode::train, Mode::evaluate);
  const Plan plan = mixed_plan(*device, mode);
  CHECK(count_of(plan.graph, "reshape") == 0);
  CHECK_FALSE(casts_parameters(plan.graph));
  for (const model::Parameter& parameter : plan.graph.parameters()) {
    REQUIRE(parameter.copy != model::no_value);
    const model::Value& copy = plan.graph.value(parameter.copy);
    const model::Value& original = plan.graph.value(parameter.value);
    CHECK(copy.type == model::ValueType{DType::bf16, original.type.shape});
    CHECK(copy.layout == original.layout);
  }
}

TEST_CASE(
    "mixed precision: copies have half of the parameters' bytes, the same slices, on lines of their own") {
  const auto device = kernels::make_cpu_device(1);
  const Plan plan =
      make_plan(classifier(small_net), images, {.key = {.batch = 4}, .buckets = testing::bucket_for_each},
                *device, {.compute_dtype = DType::bf16, .freeze = {"conv.*"}});
  CHECK(plan.arena.copy_dtype == DType::bf16);
  CHECK(2 * plan.arena.copy_bytes() == plan.arena.parameter_bytes());
  CHECK(memory_need(std::span(&plan, 1)).parameter_copies == plan.arena.copy_bytes());
  for (const auto* slices : {&plan.arena.slices, &plan.arena.frozen}) {
    CHECK_FALSE(slices->empty());
    for (const ArenaSlice& slice : *slices) CHECK(slice.first % elements_of_a_line(DType::bf16) == 0);
  }
  REQUIRE(plan.launches.updates.size() == plan.arena.buckets.size());
  for (std::size_t i = 0; i < plan.launches.updates.size(); ++i) {
    CHECK(plan.launches.updates[i].operands.back() ==
          Operand{.region = Region::parameter_copies, .first = plan.arena.buckets[i].first});
  }
}

TEST_CASE("mixed precision: what no layer reads narrow has no copy, and its bucket is updated without") {
  const auto device = kernels::make_cpu_device(1);
  const auto net = [](Tensor x) { return linear(layer_norm(flatten(x), "norm"), "fc", 10); };
  const Plan plan =
      make_plan(classifier(net), images, {.key = {.batch = 4}, .buckets = testing::bucket_for_each}, *device,
                {.compute_dtype = DType::bf16});
  for (const ArenaSlice& slice : plan.arena.slices) {
    const bool narrow = slice.name.starts_with("fc.");
    CHECK((plan.graph.parameters()[slice.parameter].copy != model::no_value) == narrow);
    const auto bucket = std::ranges::find(plan.arena.buckets, slice.first, &Bucket::first);
    CHECK(bucket->has_copies == narrow);
  }
}

TEST_CASE("mixed precision: averages are cast where evaluation reads them") {
  const auto device = kernels::make_cpu_device(1);
  const Plan plan = make_plan(classifier(small_net), images,
                              {.key = {.mode = Mode::evaluate, .batch = 4}, .average_decay = 0.9}, *device,
                              {.compute_dtype = DType::bf16});
  CHECK(casts_parameters(plan.graph));
  CHECK(plan.arena.copy_bytes() == 0);
}

/// Reads fc.weight in bf16, in a linear layer, and in f32.
Tensor tied_net(Tensor x) {
  x = linear(flatten(x), "fc", 10);
  const Tensor weight(x.graph(), x.graph().parameters().front().value);
  return add(x, reshape(split(weight, {1, 191}, 1)[0], {1, 10}));
}

TEST_CASE("mixed precision: a parameter that is read in both types has both") {
  const auto device = kernels::make_cpu_device(1);
  const Plan plan =
      make_plan(classifier(tied_net), images, {.key = {.batch = 4}}, *device, {.compute_dtype = DType::bf16});
  CHECK_FALSE(casts_parameters(plan.graph));
  const model::Parameter& tied = plan.graph.parameters().front();
  CHECK(plan.graph.uses(tied.value) > 0);
  CHECK(plan.graph.uses(tied.copy) > 0);
  CHECK(plan.graph.value(tied.gradient).type.dtype == DType::f32);
}

TEST_CASE("mixed precision: no update comes before the last reader of a copy") {
  const auto device = kernels::make_cpu_device(1);
  const Plan plan = mixed_plan(*device, Mode::train);
  const auto last = bucket_last_readers(plan.graph, plan.arena);
  for (std::size_t at = 0; at < plan.graph.nodes().size(); ++at) {
    if (plan.graph.nodes()[at].op->as<kernels::LinearBackwardData>() != nullptr) CHECK(last.front() >= at);
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
