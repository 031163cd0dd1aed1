#include <algorithm>
#include <cmath>
#include <memory>

#include "comm/make_communicator.h"
#include "runtime/plan/value_memory.h"
#include "runtime/step/executor.h"
#include "runtime/weights/parameter_io.h"
#include "tests/support/catch.h"
#include "tests/unit/runtime/small_plans.h"

namespace lockstep::runtime {
namespace {

using namespace model;

constexpr std::int64_t batch = 3;
constexpr std::int64_t length = 5;
constexpr std::int64_t vocab = 8200;

const InputSpec tokens{.shape = {length},
                       .num_classes = vocab,
                       .target_shape = {length},
                       .dtype = DType::i64,
                       .vocab_size = vocab};

/// A view behind the classifier keeps the two ops apart.
Tensor apart_if(bool apart, Tensor logits) {
  return apart ? reshape(logits, logits.shape()) : logits;
}

/// GPT-2's ends: one weight embeds and classifies.
Model tied(bool apart) {
  return testing::classifier([apart](Tensor x) {
    const Tensor weight = embedding_weight(x.graph(), "wte", vocab, 24, {.deviation = 0.2F});
    const Tensor h =
        add(embedding(x, weight), parameter(x.graph(), "wpe", {length, 24}, {.deviation = 0.1F}));
    return apart_if(apart, shared_linear(layer_norm(linear(h, "fc", 24), "norm"), weight));
  });
}

Model untied(bool apart) {
  return testing::classifier([apart](Tensor x) {
    const Tensor h = embedding(x, "wte", vocab, 16);
    return apart_if(apart, linear(tanh(linear(h, "fc", 24)), "head", vocab));
  });
}

/// Alone, so that embeddings' gradients do not go as rows.
Plan plan_of(const Model& net, const kernels::Device& device, Mode mode, DType compute = DType::f32) {
  return make_plan(net, tokens,
                   {.key = {.mode = mode, .batch = batch},
                    .schedule = {.exchange = false},
                    .optimizer = {.kind = OptimizerKind::sgd, .learning_rate = 0}},
                   device, {.compute_dtype = compute});
}

struct Outcome {
  kernels::ControlBlock control;
  std::vector<NamedTensor> gradients;
};

/// One step on tokens and targets of which some do not count.
Outcome run(const Model& net, Mode mode, DType compute = DType::f32) {
  const auto device = kernels::make_cpu_device(1);
  const auto communicator = comm::make_communicator({}, {});
  std::vector<Plan> plans;
  plans.push_back(plan_of(net, *device, mode, compute));
  ReplicaMemory memory(*device, *communicator, plans);
  Executor executor(*device, *communicator, memory);
  ParameterIO parameters(*device, plans[0], memory);
  parameters.initialise(3);
  auto* const ids = static_cast<std::int64_t*>(memory.input(0));
  auto* const targets = static_cast<std::int64_t*>(memory.target(0));
  for (std::int64_t i = 0; i < batch * length; ++i) {
    ids[i] = i == 4 ? -1 : i * 37 % 11;
    targets[i] = i % 4 == 3 ? -100 : i * 611 % vocab;
  }
  memory.host_input(0).state = {.loss_scale = 1.0F / 8, .valid_samples = 2};
  executor.run(plans[0], 0);
  return {.control = memory.host_control(0),
          .gradients = mode == Mode::train ? parameters.gradients() : std::vector<NamedTensor>()};
}

/// |a - b| / |b|.
double distance(const NamedTensor& a, const NamedTensor& b) {
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    difference += std::pow(static_cast<double>(a.values[i]) - b.values[i], 2);
    norm += std::pow(static_cast<double>(b.values[i]), 2);
  }
  return std::sqrt(difference / norm);
}

/// Gradients of unfused ops err by some roundings each: 2^-24 in f32. In bf16 both round factors to it, the
/// two ops apart also their logits: 2^-9, and some more where these are rounded again on their way back.
void check_alike(Model (*net)(bool apart), DType compute, double tolerance) {
  const Outcome one = run(net(false), Mode::train, compute);
  const Outcome two = run(net(true), Mode::train, compute);
  CHECK(one.control.loss == Approx(two.control.loss).epsilon(tolerance));
  CHECK(one.control.targets == two.control.targets);
  REQUIRE(one.gradients.size() == two.gradients.size());
  for (std::size_t i = 0; i < one.gradients.size(); ++i) {
    INFO(one.gradients[i].name);
    CHECK(distance(one.gradients[i], two.gradients[i]) < tolerance);
  }
}

std::size_t largest_activation(const Plan& plan) {
  std::size_t most = 0;
  for (const Node& node : plan.graph.nodes()) {
    for (const ValueId output : node.outputs) {
      const Value& value = plan.graph.value(output);
      if (value.role == Role::activation) most = std::max(most, allocated_bytes(value));
    }
  }
  return most;
}

bool has(const Plan& plan, const std::string& op) {
  const auto ops = testing::ops_of(plan.graph);
  return std::ranges::find(ops, op) != ops.end();
}

}  // namespace

TEST_CASE("fused classifier: loss and gradients of the two ops, tied to the embedding or not") {
  for (const auto net : {tied, untied}) {
    check_alike(net, DType::f32, 1e-5);
    check_alike(net, DType::bf16, 0.02);
  }
}

TEST_CASE("fused classifier: evaluation counts what the two ops count") {
  for (const auto net : {tied, untied}) {
    const Outcome one = run(net(false), Mode::evaluate);
    const Outcome two = run(net(true), Mode::evaluate);
    CHECK(one.control.loss == Approx(two.control.loss).epsilon(1e-5));
    CHECK(one.control.correct == two.control.correct);
    CHECK(one.control.top5 == two.control.top5);
    CHECK(one.control.targets == two.control.targets);
  }
}

TEST_CASE("fused classifier: no value of the plan has the size of the logits") {
  const auto device = kernels::make_cpu_device(1);
  for (const Mode mode : {Mode::train, Mode::evaluate}) {
    const Plan one = plan_of(untied(false), *device, mode);
    const Plan two = plan_of(untied(true), *device, mode);
    CHECK(has(one, "classifier_loss"));
    CHECK_FALSE(has(one, "softmax_cross_entropy"));
    CHECK_FALSE(has(two, "classifier_loss"));
    constexpr std::size_t logits = batch * length * vocab * sizeof(float);
    CHECK(largest_activation(one) < logits);
    CHECK(one.activations.bytes < logits);  // nor has the memory that kernels work in
    CHECK(largest_activation(two) >= logits);
  }
}

TEST_CASE("fused classifier: left alone with few classes or a frozen parameter") {
  const auto fused = [](const Model& net, InputSpec input, std::vector<std::string> freeze = {}) {
    Graph graph = build_graph(net, input, batch, true);
    freeze_parameters(graph, freeze);
    fuse_classifier(graph);
    return std::ranges::any_of(graph.nodes(),
                               [](const Node& node) { return node.op->name() == "classifier_loss"; });
  };
  CHECK(fused(untied(false), tokens));
  CHECK_FALSE(fused(untied(false), tokens, {"head.bias"}));
  InputSpec few = tokens;
  few.num_classes = 8191;
  const auto small =
      testing::classifier([](Tensor x) { return linear(embedding(x, "wte", vocab, 16), "head", 8191); });
  CHECK_FALSE(fused(small, few));
}

TEST_CASE(
    "fused classifier: a tied weight's gradient is one, to whose memory the embedding's rows are added") {
  const auto device = kernels::make_cpu_device(1);
  const Plan plan = plan_of(tied(false), *device, Mode::train);
  const auto is = [](const char* op) { return [op](const Node& node) { return node.op->name() == op; }; };
  const auto& nodes = plan.graph.nodes();
  const auto loss = std::ranges::find_if(nodes, is("classifier_loss"));
  const auto rows = std::ranges::find_if(nodes, is("embedding_backward"));
  REQUIRE(loss != nodes.end());
  REQUIRE(rows != nodes.end());
  CHECK(rows->inputs.back() == loss->outputs[2]);
  CHECK(plan.graph.value(rows->outputs[0]).role == Role::gradient);
  CHECK(plan.activations.storage[static_cast<std::size_t>(loss->outputs[2])] == rows->outputs[0]);
  CHECK(plan.activations.bytes < vocab * 24 * sizeof(float));
}

TEST_CASE("fused classifier in mixed precision: gradients of weights are written as f32, with no cast") {
  const auto device = kernels::make_cpu_device(1);
  const Plan plan = plan_of(untied(false), *device, Mode::train, DType::bf16);
  for (const Node& node : plan.graph.nodes()) {
    if (node.op->name() != "classifier_loss") continue;
    REQUIRE(node.outputs.size() == 4);
    for (const std::size_t i : {std::size_t{2}, std::size_t{3}}) {
      CHECK(plan.graph.value(node.outputs[i]).role == Role::gradient);
    }
  }
}

}  // namespace lockstep::runtime
