#include <algorithm>
#include <cstring>

#include "kernels/base/error.h"
#include "kernels/pointwise.h"
#include "model/spec_op.h"
#include "tests/support/catch.h"
#include "tests/unit/runtime/one_replica.h"

namespace lockstep::runtime {
namespace {

using namespace model;
using testing::classifier;
using testing::OneReplica;

Tensor convolution(Tensor x, const std::string& name) {
  return conv2d(x, name, {.out_channels = 16, .kernel = 3, .padding = 1});
}

/// A residual block; the second part has saved statistics, several outputs and views.
Tensor block(Tensor x, const std::string& name) {
  const Tensor h = relu(convolution(relu(convolution(x, name + ".a")), name + ".b"));
  const std::vector<Tensor> halves = split(layer_norm(permute(h, {0, 2, 3, 1}), name + ".norm"), {8, 8}, 3);
  const Tensor mixed = permute(concat({tanh(halves[1]), halves[0]}, 3), {0, 3, 1, 2});
  return relu(add(mixed, x));
}

Tensor residual_net(Tensor x) {
  x = relu(convolution(x, "stem"));
  for (const char* name : {"1", "2", "3", "4"}) {
    x = segment(x, [name](Tensor in) { return block(in, name); });
  }
  return linear(flatten(max_pool2d(x)), "head", 10);
}

Tensor deep_mlp(Tensor x) {
  x = flatten(x);
  for (const char* name : {"1", "2", "3"}) {
    x = segment(x, [name](Tensor in) {
      const Tensor h =
          tanh(linear(tanh(linear(in, std::string(name) + ".a", 256)), std::string(name) + ".b", 256));
      return linear(h, std::string(name) + ".c", 16);
    });
  }
  return linear(x, "head", 10);
}

struct Case {
  const char* name;
  Tensor (*network)(Tensor);
  double least_share;  ///< of its activations that is saved
};

TEST_CASE("recomputed segments: the same bits in less memory") {
  // What stays of the residual net is an edge of each of 5 blocks, of which one is whole at a time; kept are
  // some 8 values of that size in each block. The MLP keeps 16 of 512 numbers a row in a block.
  const Case test = GENERATE(Case{"residual", residual_net, 0.5}, Case{"mlp", deep_mlp, 0.4});
  CAPTURE(test.name);
  const PlanKey key{.batch = 10};
  OneReplica kept(classifier(test.network), {key});
  OneReplica again(classifier(test.network), {key}, {.recompute = true});
  const auto of_kept = static_cast<double>(allocate_activations(kept.plan().graph).bytes);
  const auto of_again = static_cast<double>(allocate_activations(again.plan().graph).bytes);
  INFO(of_kept << " bytes kept, " << of_again << " with segments computed again");
  CHECK(of_again <= (1 - test.least_share) * of_kept);
  for (int step = 0; step < 2; ++step) {
    const kernels::ControlBlock a = kept.run(key, 0, 10);
    const kernels::ControlBlock b = again.run(key, 0, 10);
    CHECK(a.loss == b.loss);
    CHECK(sha256_of(kept.replica().gradients()) == sha256_of(again.replica().gradients()));
  }
  CHECK(sha256_of(kept.replica().parameters()) == sha256_of(again.replica().parameters()));
}

TEST_CASE("recompute goes with micro-batches: the same bits") {
  const PlanKey first{.role = MicroBatchRole::first, .batch = 4};
  const PlanKey last{.role = MicroBatchRole::last, .batch = 4};
  OneReplica kept(classifier(residual_net), {first, last});
  OneReplica again(classifier(residual_net), {first, last}, {.recompute = true});
  for (OneReplica* replica : {&kept, &again}) {
    replica->run(first, 0, 8);
    replica->run(last, 4, 8);
  }
  CHECK(sha256_of(kept.replica().parameters()) == sha256_of(again.replica().parameters()));
}

std::size_t count_again(const Graph& graph) {
  return static_cast<std::size_t>(
      std::ranges::count_if(graph.nodes(), [](const Node& node) { return node.layer.ends_with(" again"); }));
}

/// The indices of a pool without stride are a quarter of its input, and made again; those of the other are a
/// sixteenth, which is kept.
Tensor pooled_net(Tensor x) {
  for (const char* name : {"1", "2"}) {
    x = segment(x, [name](Tensor in) {
      in = max_pool2d(relu(convolution(in, std::string(name) + ".a")),
                      {.kernel = 3, .stride = 1, .padding = 1});
      return max_pool2d(relu(convolution(in, std::string(name) + ".b")));
    });
  }
  return linear(flatten(x), "head", 10);
}

TEST_CASE("indices of pools are made again where they are not small: the same bits") {
  const PlanKey key{.batch = 10};
  OneReplica kept(classifier(pooled_net), {key});
  OneReplica again(classifier(pooled_net), {key}, {.recompute = true});
  const auto& nodes = again.plan().graph.nodes();
  CHECK(std::ranges::count_if(nodes, [](const Node& node) {
          return node.op->name() == "max_pool2d_with_indices" && node.layer.ends_with(" again");
        }) == 2);
  for (int step = 0; step < 2; ++step) {
    CHECK(kept.run(key, 0, 10).loss == again.run(key, 0, 10).loss);
    CHECK(sha256_of(kept.replica().gradients()) == sha256_of(again.replica().gradients()));
  }
}

TEST_CASE("only what backward reads runs again, once, right before it is read") {
  const auto device = kernels::make_cpu_device(1);
  const Plan plan = make_plan(
      classifier([](Tensor x) {
        x = segment(x, [](Tensor in) { return relu(convolution(relu(convolution(in, "a")), "b")); });
        return linear(flatten(x), "head", 10);
      }),
      testing::images, {.key = {.batch = 4}}, *device, {.recompute = true});
  // b's output is the segment's, which the head keeps; b's weights need a's output.
  CHECK(count_again(plan.graph) == 1);
  const auto& nodes = plan.graph.nodes();
  const auto again = std::ranges::find(nodes, "a again", &Node::layer);
  REQUIRE(again != nodes.end());
  REQUIRE(again + 1 != nodes.end());
  CHECK(std::ranges::count((again + 1)->inputs, again->outputs.front()) == 1);
}

TEST_CASE("a segment in a segment is a part of it; without one --recompute is refused") {
  const InputSpec& images = testing::images;
  const Graph graph = build_graph(classifier([](Tensor x) {
                                    x = segment(flatten(x), [](Tensor in) {
                                      in = segment(in, [](Tensor inner) { return linear(inner, "a", 8); });
                                      return linear(in, "b", 8);
                                    });
                                    return linear(x, "c", 10);
                                  }),
                                  images, 2, true);
  const auto segment_of = [&](const std::string& layer) {
    return std::ranges::find(graph.nodes(), layer, &Node::layer)->segment;
  };
  CHECK(segment_of("a") != no_segment);
  CHECK(segment_of("a") == segment_of("b"));
  CHECK(segment_of("c") == no_segment);
  Graph without = build_graph(classifier(testing::small_net), images, 2, true);
  differentiate(without);
  CHECK_THROWS_AS(recompute(without), UsageError);
}

TEST_CASE("what touches a buffer never runs twice; what it gives is kept") {
  Graph graph;
  const ValueId x = graph.add_value("x", {DType::f32, {4}}, Role::input);
  const Tensor running{graph, graph.add_buffer("running", {4}, 0)};
  graph.begin_segment();
  const Tensor h = relu(Tensor(graph, x));
  const Tensor moved = add(h, running);
  const Tensor y = tanh(moved);
  graph.end_segment();
  graph.output = relu(y).id();
  const auto sum = make_op(kernels::Pointwise::single(kernels::PointwiseFunction::add));
  for (const Tensor& read : {h, moved})
    graph.add_backward_node(sum, {read.id(), x}, {{DType::f32, {4}}}, "back");
  recompute(graph);
  CHECK(count_again(graph) == 1);
  CHECK(std::ranges::count(graph.nodes(), "relu again", &Node::layer) == 1);
}

}  // namespace
}  // namespace lockstep::runtime
