#include <algorithm>
#include <cmath>

#include "kernels/base/error.h"
#include "model/model.h"
#include "model/zoo/zoo.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

using namespace lockstep;
using namespace lockstep::model;

namespace {

Graph forward_of(const std::string& name, const ModelArgs& args, const InputSpec& input) {
  return build_forward(find_model(name, args).make(args, input), input, 2, true);
}

Graph forward_of(const std::string& name, const ModelArgs& args = {}) {
  return forward_of(name, args, find_model(name, args).wants(args));
}

std::vector<std::string> parameters_of(const Graph& graph) {
  std::vector<std::string> texts;
  for (const Parameter& parameter : graph.parameters()) {
    const Value& value = graph.value(parameter.value);
    texts.push_back(value.name + " " + value.type.shape.str());
  }
  return texts;
}

Shape output_of(const Graph& graph) {
  return graph.value(graph.output).type.shape;
}

}  // namespace

TEST_CASE("rnn and lstm have as many parameters as PyTorch's, in its order, and start as they do") {
  CHECK(forward_of("rnn").parameter_elements() == 1'381'386);
  const Graph lstm = forward_of("lstm");
  CHECK(lstm.parameter_elements() == 11'368'208);
  CHECK(parameters_of(lstm) ==
        std::vector<std::string>{"embedding.weight 10000x256", "lstm.weight_ih_l0 2048x256",
                                 "lstm.weight_hh_l0 2048x512", "lstm.bias_ih_l0 2048", "lstm.bias_hh_l0 2048",
                                 "lstm.weight_ih_l1 2048x512", "lstm.weight_hh_l1 2048x512",
                                 "lstm.bias_ih_l1 2048", "lstm.bias_hh_l1 2048", "fc.weight 10000x512",
                                 "fc.bias 10000"});
  CHECK(lstm.parameters()[1].initializer.bound == Approx(1 / std::sqrt(512.0)));
  CHECK(lstm.parameters()[4].initializer.bound == Approx(1 / std::sqrt(512.0)));
}

TEST_CASE("rnn and lstm give a row's class, a token's, or values of sequences of numbers") {
  CHECK(output_of(forward_of("rnn")) == Shape{2, 10});
  CHECK(output_of(forward_of("rnn", {{"output", "all"}, {"num_classes", "7"}})) == Shape{2, 64, 7});
  CHECK(output_of(forward_of("lstm", {{"vocab_size", "30"}})) == Shape{2, 30});
  CHECK(output_of(forward_of("lstm", {{"vocab_size", "30"}, {"num_classes", "4"}})) == Shape{2, 4});
  const InputSpec values{.shape = {9, 5}, .num_classes = 0, .target_shape = {3}};
  CHECK(output_of(forward_of("rnn", {{"hidden", "8"}}, values)) == Shape{2, 3});
  const InputSpec each{.shape = {9, 5}, .num_classes = 0, .target_shape = {9, 3}};
  const Graph all = forward_of("lstm", {{"hidden", "8"}, {"output", "all"}}, each);
  CHECK(output_of(all) == Shape{2, 9, 3});
  CHECK(parameters_of(all).front() == "lstm.weight_ih_l0 32x5");
  const InputSpec number{.shape = {9, 5}, .num_classes = 0, .target_shape = {9}};
  CHECK(output_of(forward_of("rnn", {{"hidden", "8"}, {"output", "all"}}, number)) == Shape{2, 9});
}

TEST_CASE("rnn and lstm start from the states that samples bring, and return the last ones if asked to") {
  const ModelArgs small{{"layers", "3"}, {"hidden", "8"}};
  for (const std::string name : {"rnn", "lstm"}) {
    const ZooEntry& entry = find_model(name, small);
    const std::int64_t kinds = name == "lstm" ? 2 : 1;
    CHECK(entry.states(small) == Shape{kinds, 3, 8});
    InputSpec input = entry.wants(small);
    input.states = entry.states(small);
    const Graph graph = build_forward(entry.make(small, input), input, 2, false, true);
    const ValueId states = graph.find(Role::states);
    REQUIRE(states != no_value);
    CHECK(graph.value(states).type == ValueType{DType::f32, {2, kinds, 3, 8}});
    const auto starts_from_states = [&](const Node& node) {
      return node.op->name() == name && node.inputs.size() == 3 + static_cast<std::size_t>(kinds);
    };
    CHECK(std::ranges::count_if(graph.nodes(), starts_from_states) == 3);
    REQUIRE(graph.final_states != no_value);
    CHECK(graph.value(graph.final_states).type == ValueType{DType::f32, {2, kinds, 3, 8}});
    CHECK(graph.value(graph.final_states).role == Role::cache);

    const Graph without = forward_of(name, small);
    CHECK(without.find(Role::states) == no_value);
    CHECK(without.final_states == no_value);
  }
  for (const ZooEntry& entry : zoo()) {
    CHECK((entry.states != nullptr) == (entry.name == "rnn" || entry.name == "lstm"));
  }
}

TEST_CASE("recurrent layers refuse what does not fit, by name") {
  using tests::contains;
  const auto refused = [](const auto& layer) { return tests::message_of<UsageError>(layer); };
  InputSpec pairs = find_model("lstm", {}).wants({});
  pairs.source_length = 32;
  CHECK_THAT(refused([&] { forward_of("lstm", {}, pairs); }), contains("one sequence"));
  Graph graph;
  const auto input = [&](const Shape& shape) {
    return Tensor(graph, graph.add_value("x", {DType::f32, shape}, Role::input));
  };
  const Tensor x = input({4, 3, 2});
  CHECK_THAT(refused([&] {
               rnn(input({4, 2}), "r", {.hidden = 5});
             }),
             contains("layer 'r' (rnn): input 4x2, 1 layers of 5 units: (T, N, features) wanted"));
  CHECK_THAT(refused([&] { lstm(x, "r", {.hidden = 0}); }), contains("1 layers of 0 units"));
  CHECK_THAT(refused([&] { lstm(x, "r", {.hidden = 5}, {}, {.h = {x}, .c = {}}); }),
             contains("1 h0 and 0 c0 for 1 layers"));
  CHECK_THAT(refused([&] {
               rnn(x, "s", {.hidden = 5}, {}, {.h = {input({3, 6})}, .c = {}});
             }),
             contains("layer 's' (rnn): h0 is f32 3x6, must be f32 3x5"));
  CHECK_THAT(refused([&] { rnn(x, "t", {.hidden = 5}, input({3})); }),
             contains("layer 't' (rnn): lengths is f32 3, must be i64 3"));
  CHECK_THAT(refused([&] { sequence_lengths(x); }), contains("tokens is f32"));
  CHECK_THAT(refused([&] { last_step(input({4})); }), contains("input 4 has no steps"));
}
