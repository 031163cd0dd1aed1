#include "runtime/plan/algorithms.h"

#include <algorithm>
#include <set>

#include "model/zoo/zoo.h"
#include "runtime/plan/print.h"
#include "tests/support/catch.h"
#include "tests/support/device_under_test.h"

namespace lockstep::runtime {
namespace {

const model::InputSpec images{.shape = {3, 8, 8}, .num_classes = 10};

model::Model two_convolutions() {
  const auto forward = [](model::Tensor x) {
    x = relu(conv2d(x, "conv1", {.out_channels = 4, .kernel = 3, .padding = 1}));
    return linear(flatten(conv2d(x, "conv2", {.out_channels = 4, .kernel = 3})), "fc", 10);
  };
  return {.name = "test", .forward = forward};
}

Plan plan_with(const SelectedAlgorithms& selected, const kernels::Device& device) {
  return make_plan(two_convolutions(), images, {.key = {.batch = 4}}, device,
                   {.parameter_layouts = {}, .algorithms = selected});
}

SelectedAlgorithms selected_in(const Plan& plan, kernels::Device& device) {
  KnownAlgorithms known;
  return benchmark_algorithms(plan.graph, device, known).selected;
}

/// Convolutions, and on a GPU products besides.
std::vector<std::string> timed_on(const kernels::Device& device) {
  std::vector<std::string> ops{"conv1 conv2d", "conv1 conv2d_backward_weights", "conv2 conv2d",
                               "conv2 conv2d_backward_data", "conv2 conv2d_backward_weights"};
  if (!device.is_cpu())
    ops.insert(ops.end(), {"fc linear", "fc linear_backward_data", "fc linear_backward_weights"});
  return ops;
}

const model::Node& node_of(const Plan& plan, const std::string& key) {
  const auto& nodes = plan.graph.nodes();
  return *std::ranges::find(nodes, key, [](const model::Node& n) { return n.layer + " " + n.op->name(); });
}

std::string algorithm_in(const Plan& plan, const std::string& key) {
  return node_of(plan, key).op->algorithm();
}

TEST_CASE("benchmark: selections survive the way to the other ranks") {
  const SelectedAlgorithms selected{{"conv1 conv2d", "winograd"},
                                    {"conv1 conv2d_backward_weights", "eng1_k2=3"}};
  CHECK(selected_algorithms_from(to_text(selected)) == selected);
  CHECK(selected_algorithms_from("").empty());
}

TEST_CASE("benchmark: every op gets one of its algorithms, and the plan uses it") {
  const auto device = tests::make_device_under_test(1);
  const SelectedAlgorithms selected = selected_in(plan_with({}, *device), *device);
  REQUIRE(selected.size() == timed_on(*device).size());
  const Plan plan = plan_with(selected, *device);
  CHECK(plan.unavailable_algorithms.empty());
  for (const std::string& key : timed_on(*device)) {
    INFO(key);
    CHECK(algorithm_in(plan, key) == selected.at(node_of(plan, key).key()));
  }
}

TEST_CASE("benchmark: what is known is not timed, unless the device does not offer it") {
  const auto device = tests::make_device_under_test(1);
  const Plan plan = plan_with({}, *device);
  KnownAlgorithms known;
  const Benchmark first = benchmark_algorithms(plan.graph, *device, known);
  CHECK(first.timed == timed_on(*device).size());
  CHECK(known.size() == timed_on(*device).size());
  for (auto& [op, algorithm] : known) {
    INFO(op);
    CHECK((op.starts_with("conv2d") || op.starts_with("linear")));
    algorithm = "automatic";
  }
  const Benchmark second = benchmark_algorithms(plan.graph, *device, known);
  CHECK(second.timed == 0);
  for (const auto& [op, algorithm] : second.selected) CHECK(algorithm == "automatic");
  known.begin()->second = "eng99_gone";
  CHECK(benchmark_algorithms(plan.graph, *device, known).timed == 1);
  CHECK(known.begin()->second != "eng99_gone");
  const Plan larger = make_plan(two_convolutions(), images, {.key = {.batch = 8}}, *device, {});
  CHECK(benchmark_algorithms(larger.graph, *device, known).timed == timed_on(*device).size());
}

TEST_CASE("benchmark: a layer that stands twice in a model has two selections") {
  const auto device = tests::make_device_under_test(1);
  const auto twice = [](model::Tensor x) {
    model::Graph& graph = x.graph();
    x = conv2d(x, "first", {.out_channels = 3, .kernel = 3, .padding = 1});
    const model::Node first = graph.nodes().back();
    const auto again = graph.add_node(first.op, {x.id(), first.inputs[1], first.inputs[2]}, first.layer);
    return linear(flatten(model::Tensor(graph, again.front())), "fc", 10);
  };
  const Plan plan = make_plan({.name = "test", .forward = twice}, images, {.key = {.batch = 4}}, *device, {});
  std::set<std::string> keys;
  for (const model::Node& node : plan.graph.nodes()) CHECK(keys.insert(node.key()).second);
  CHECK(selected_in(plan, *device).size() == timed_on(*device).size());
}

TEST_CASE("benchmark: a plan takes each algorithm that is offered, by its name") {
  const auto device = tests::make_device_under_test(1);
  const Plan plan = plan_with({}, *device);
  for (const std::string& key : timed_on(*device)) {
    INFO(key);
    CHECK(algorithm_in(plan, key) == "automatic");
    const model::Node& node = node_of(plan, key);
    const auto offered = node.op->candidates(*device, plan.graph.io(node));
    CHECK(offered.size() >= (device->is_cpu() ? 1U : 2U));
    for (const model::OpPtr& op : offered) {
      const Plan other = plan_with({{node.key(), op->algorithm()}}, *device);
      CHECK(algorithm_in(other, key) == op->algorithm());
      CHECK(other.unavailable_algorithms.empty());
    }
  }
}

TEST_CASE("benchmark: the library selects in place of an algorithm that is not offered, with one warning") {
  const auto device = tests::make_device_under_test(1);
  const Plan any = plan_with({}, *device);
  const std::string first = node_of(any, "conv1 conv2d").key();
  const std::string second = node_of(any, "conv2 conv2d_backward_data").key();
  const Plan plan = plan_with({{first, "eng99_k1=0"}, {second, "eng98"}}, *device);
  CHECK(algorithm_in(plan, "conv1 conv2d") == "automatic");
  CHECK(algorithm_in(plan, "conv2 conv2d_backward_data") == "automatic");
  CHECK(fallback_warning_of(plan).find(first + ": eng99_k1=0") != std::string::npos);
  CHECK(fallback_warning_of(plan).find(second + ": eng98") != std::string::npos);
  CHECK(fallback_warning_of(plan).find('\n') == std::string::npos);
  CHECK(fallback_warning_of(plan_with({}, *device)).empty());
}

}  // namespace
}  // namespace lockstep::runtime
