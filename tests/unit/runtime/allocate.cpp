#include "runtime/plan/passes.h"

#include <utility>

#include "model/zoo/zoo.h"
#include "tests/support/catch.h"
#include "tests/unit/runtime/small_plans.h"

namespace lockstep::runtime {
namespace {

using model::Graph;
using model::Tensor;
using testing::classifier;
using testing::plan_of;

TEST_CASE("allocate: a broadcast operand is not overwritten by the result") {
  Graph graph;
  const Tensor column{graph, graph.add_value("column", {DType::f32, {4, 1}}, model::Role::activation)};
  const Tensor square{graph, graph.add_value("square", {DType::f32, {4, 4}}, model::Role::activation)};
  const Tensor h = relu(column);
  const Tensor y = add(h, square);
  const Tensor z = relu(y);
  const auto storage = allocate_activations(graph).storage;
  CHECK(storage[static_cast<std::size_t>(y.id())] == y.id());
  CHECK(storage[static_cast<std::size_t>(z.id())] == y.id());
}

/// Where a value lies in the activation arena.
std::pair<std::size_t, std::size_t> range_of(const Plan& plan, model::ValueId id) {
  const model::ValueId root = plan.activations.storage[static_cast<std::size_t>(id)];
  const std::size_t offset = plan.activations.offsets[static_cast<std::size_t>(root)];
  return {offset, offset + stored_bytes(plan.graph.value(id))};
}

TEST_CASE("allocate: values that live at the same time never share memory") {
  const auto device = kernels::make_cpu_device(1);
  const model::ZooEntry entry = model::find_model("convnet", {});
  const model::InputSpec input = entry.wants({});
  const Plan plan = make_plan(entry.make({}, input), input, {.key = {.batch = 4}}, *device, {});
  const auto& nodes = plan.graph.nodes();
  const auto root = [&](model::ValueId id) { return plan.activations.storage[static_cast<std::size_t>(id)]; };
  std::size_t without_sharing = 0;
  for (std::size_t at = 0; at < nodes.size(); ++at) {
    for (const model::ValueId output : nodes[at].outputs) {
      if (plan.graph.value(root(output)).role != model::Role::activation) continue;
      const auto [begin, end] = range_of(plan, output);
      CHECK(end <= plan.activations.bytes);
      without_sharing += end - begin;
      // This output must not overlap a value that a later node reads, unless both share memory by design.
      for (std::size_t later = at; later < nodes.size(); ++later) {
        for (const model::ValueId input_id : nodes[later].inputs) {
          const auto written = plan.graph.producer(input_id);
          if (!written || *written >= at || root(input_id) == root(output)) continue;
          if (plan.graph.value(root(input_id)).role != model::Role::activation) continue;
          const auto [other_begin, other_end] = range_of(plan, input_id);
          CHECK((end <= other_begin || other_end <= begin));
        }
      }
    }
  }
  CHECK(plan.activations.bytes < without_sharing);
}

bool overlap(const Plan& plan, model::ValueId a, model::ValueId b) {
  const auto [first_a, end_a] = range_of(plan, a);
  const auto [first_b, end_b] = range_of(plan, b);
  return first_a < end_b && first_b < end_a;
}

TEST_CASE("allocate: an output without readers shares no memory with the node's other operands") {
  const auto device = kernels::make_cpu_device(1);
  const Plan plan = plan_of(classifier([](Tensor x) {
                              x = relu(conv2d(x, "conv", {.out_channels = 4, .kernel = 3}));
                              const Tensor part = split(x, {1, 2, 1}, 1)[1];
                              return linear(flatten(part), "fc", 10);
                            }),
                            *device);
  int unread = 0;
  for (const model::Node& node : plan.graph.nodes()) {
    for (const model::ValueId output : node.outputs) {
      if (plan.graph.value(output).role != model::Role::activation || plan.graph.uses(output) > 0) continue;
      ++unread;
      CHECK(plan.graph.value(output).layout);
      CHECK(range_of(plan, output).second <= plan.activations.bytes);
      for (const auto* others : {&node.inputs, &node.outputs}) {
        for (const model::ValueId other : *others) CHECK((other == output || !overlap(plan, output, other)));
      }
    }
  }
  CHECK(unread == 2);
}

TEST_CASE("allocate: an operand that is repeated is not overwritten") {
  Graph graph;
  const Tensor row(graph, graph.add_value("row", {DType::f32, {6}}, model::Role::input));
  const Tensor matrix(graph, graph.add_value("matrix", {DType::f32, {2, 6}}, model::Role::input));
  const Tensor h = relu(row);  // 24 bytes, in as many cache lines as the 48 of the sum
  const Tensor sum = GENERATE(false, true) ? add(h, matrix) : add(expand(h, {2, 6}), matrix);
  assign_layouts(graph, *kernels::make_cpu_device(1), {});
  const ActivationPlan plan = allocate_activations(graph);
  CHECK(plan.storage[static_cast<std::size_t>(sum.id())] != h.id());
}

}  // namespace
}  // namespace lockstep::runtime
