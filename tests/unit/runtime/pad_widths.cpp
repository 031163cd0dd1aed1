#include <algorithm>
#include <map>
#include <string>

#include "runtime/plan/passes/passes.h"
#include "runtime/plan/print.h"
#include "tests/support/catch.h"
#include "tests/unit/runtime/small_plans.h"

namespace lockstep::runtime {
namespace {

using kernels::Layout;
using kernels::MatmulPrecision;
using model::Graph;
using model::Role;
using model::Tensor;
using testing::classifier;
using testing::images;

/// How a step multiplies.
struct Way {
  DType dtype;
  MatmulPrecision precision;
};
constexpr Way tf32{DType::f32, MatmulPrecision::high};
constexpr Way bf16{DType::bf16, MatmulPrecision::highest};
constexpr Way f16{DType::f16, MatmulPrecision::highest};
constexpr Way ieee{DType::f32, MatmulPrecision::highest};

struct Net {
  std::function<Tensor(Tensor)> forward;
  model::InputSpec input = images;
  bool trains = true;
};

/// What make_plan does until the pass, and the pass.
Graph padded(const Net& net, Way way, const ParameterLayouts& pinned = {}, bool keeps_output = false) {
  Graph graph = build_graph(classifier(net.forward), net.input, 4, net.trains);
  autocast(graph, way.dtype);
  if (net.trains) differentiate(graph);
  fuse(graph);
  fuse_gelu(graph);
  if (is_half(way.dtype)) copy_parameters(graph, way.dtype);
  set_precision(graph, way.precision, way.precision);
  pad_widths(graph, pinned, keeps_output);
  return graph;
}

using Rooms = std::map<std::string, std::string>;

/// Of parameters with room their extents in memory, and those of their copies, which are the same.
Rooms parameters_with_room(const Graph& graph) {
  Rooms rooms;
  for (const model::Parameter& parameter : graph.parameters()) {
    const model::Value& value = graph.value(parameter.value);
    if (parameter.copy != model::no_value) CHECK(graph.value(parameter.copy).layout == value.layout);
    if (!value.layout) continue;
    CHECK(value.layout == Layout::row_major(value.layout->padded));
    rooms.emplace(value.name, value.layout->padded.str());
  }
  return rooms;
}

/// The extents in memory of the operand of the first node of that op in that layer.
std::string room_of(const Graph& graph, const std::string& layer, const std::string& op,
                    std::size_t operand) {
  const auto node = std::ranges::find_if(graph.nodes(), [&](const model::Node& candidate) {
    return candidate.layer == layer && candidate.op->name() == op;
  });
  REQUIRE(node != graph.nodes().end());
  const std::size_t inputs = node->inputs.size();
  const model::Value& value =
      graph.value(operand < inputs ? node->inputs[operand] : node->outputs[operand - inputs]);
  return (value.layout ? value.layout->padded : value.type.shape).str();
}

/// Whose weights see pictures.
Tensor odd_features(Tensor x) {
  return linear(flatten(conv2d(x, "conv", {.out_channels = 8, .kernel = 3})), "fc1", 20);
}

Tensor perceptron(Tensor x) {
  return linear(relu(odd_features(x)), "fc2", 10);
}

TEST_CASE("widths: ten classes and an odd hidden layer have room in half types and TF32, none in IEEE f32") {
  const Way way = GENERATE(bf16, f16, tf32);
  const bool trains = GENERATE(true, false);
  const Graph graph = padded({perceptron, images, trains}, way);
  // fc1.weight gets its room from what it writes, once the layout of its pictures is known.
  CHECK(parameters_with_room(graph) ==
        Rooms{{"fc1.bias", "24"}, {"fc2.weight", "16x24"}, {"fc2.bias", "16"}});
  CHECK(room_of(graph, "fc1", "linear", 3) == "4x24");
  CHECK(room_of(graph, "fc2", "linear", 0) == "4x24");
  CHECK(room_of(graph, "fc2", "linear", 3) == "4x16");
  if (trains) {
    CHECK(room_of(graph, "fc2", "linear_backward_weights", 1) == "4x16");
    CHECK(room_of(graph, "fc2", "linear_backward_data", 2) == "4x24");
    CHECK(room_of(graph, "fc1", "linear_backward_weights", 1) == "4x24");
  }
  // A loss takes rows with room; what is cast for it in half types has none.
  CHECK(room_of(graph, "loss", "softmax_cross_entropy", 0) == (is_half(way.dtype) ? "4x10" : "4x16"));
  CHECK(parameters_with_room(padded({perceptron, images, trains}, ieee)).empty());
}

TEST_CASE("widths: what another kernel writes or reads as it likes stays, and the plan says so") {
  const Net normed{[](Tensor x) {
    x = layer_norm(odd_features(x), "norm");
    return linear(sigmoid(linear(x, "fc2", 12)), "fc3", 10);  // sigmoid(0) is not 0
  }};
  Graph graph = padded(normed, tf32);
  CHECK(parameters_with_room(graph) == Rooms{{"fc3.weight", "16x12"}, {"fc3.bias", "16"}});
  for (model::Node& node : graph.nodes()) CHECK(node.op->name() != "reorder");
  const std::string pixels = "conv: 3 input channels (4 is faster)";
  CHECK(tensor_core_misses(graph) == std::vector{pixels});  // 20 and 12 are whole words of TF32
  // In half types the casts before and behind the norm give rows room and take it from them.
  graph = padded(normed, bf16);
  CHECK(parameters_with_room(graph) ==
        Rooms{{"fc1.bias", "24"}, {"fc2.weight", "12x24"}, {"fc3.weight", "16x12"}, {"fc3.bias", "16"}});
  CHECK(room_of(graph, "norm", "layer_norm", 0) == "4x20");
  CHECK(tensor_core_misses(graph) == std::vector<std::string>{"conv: 3 input channels (8 is faster)",
                                                              "fc2: 12 output features (16 is faster)",
                                                              "fc3: 12 input features (16 is faster)"});
}

TEST_CASE("widths: inputs of odd width get room where they are cast, not where they are read as they come") {
  const Net rows{[](Tensor x) { return linear(x, "fc", 10); }, {.shape = {13}, .num_classes = 10}};
  CHECK(parameters_with_room(padded(rows, bf16)) == Rooms{{"fc.weight", "16x16"}, {"fc.bias", "16"}});
  const Graph graph = padded(rows, tf32);
  CHECK(parameters_with_room(graph) == Rooms{{"fc.weight", "16x13"}, {"fc.bias", "16"}});
  CHECK(tensor_core_misses(graph) == std::vector<std::string>{"fc: 13 input features (16 is faster)"});
}

TEST_CASE("widths: gelu in the product has room; a single output has none, it is one pass over memory") {
  const Graph graph = padded({[](Tensor x) {
                               x = gelu_tanh(linear(flatten(x), "fc1", 24));
                               x = gelu_tanh(linear(x, "fc2", 12));
                               return linear(linear(x, "one", 1), "fc3", 10);
                             }},
                             bf16);
  CHECK(parameters_with_room(graph) == Rooms{{"fc2.weight", "16x24"},
                                             {"fc2.bias", "16"},
                                             {"one.weight", "1x16"},
                                             {"fc3.weight", "16x1"},
                                             {"fc3.bias", "16"}});
  CHECK(room_of(graph, "fc2", "linear_gelu", 3) == "4x16");
  CHECK(room_of(graph, "fc2", "linear_gelu", 4) == "4x16");
  CHECK(room_of(graph, "one", "linear_backward_gelu", 3) == "4x16");
}

TEST_CASE("widths: a table that is read as an embedding, too, has room behind its rows alone") {
  const model::InputSpec tokens{
      .shape = {6}, .num_classes = 65, .target_shape = {6}, .dtype = DType::i64, .vocab_size = 65};
  const Net tied{[](Tensor x) {
                   const Tensor table = model::embedding_weight(x.graph(), "table", 65, 12);
                   return shared_linear(model::embedding(x, table), table);
                 },
                 tokens};
  CHECK(parameters_with_room(padded(tied, bf16)) == Rooms{{"table.weight", "72x12"}});
}

TEST_CASE("widths: parameters of a later plan stay as the first has them, and an output that is read, too") {
  const ParameterLayouts plain{{"fc2.weight", Layout::row_major({10, 20})},
                               {"fc2.bias", Layout::row_major({10})}};
  CHECK(parameters_with_room(padded({perceptron}, tf32, plain)).empty());
  const ParameterLayouts half{{"fc2.weight", Layout::row_major({16, 20})}};
  CHECK(parameters_with_room(padded({perceptron}, tf32, half)) ==
        Rooms{{"fc2.weight", "16x20"}, {"fc2.bias", "16"}});
  const Graph read = padded({perceptron, images, false}, tf32, {}, true);
  CHECK(parameters_with_room(read) == Rooms{{"fc1.bias", "24"}, {"fc2.weight", "10x24"}});
  CHECK(room_of(read, "fc2", "linear", 3) == "4x10");
}

}  // namespace
}  // namespace lockstep::runtime
