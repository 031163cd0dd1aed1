#include "runtime/plan/passes.h"

#include <set>

#include "tests/support/catch.h"
#include "tests/unit/runtime/small_plans.h"

namespace lockstep::runtime {
namespace {

using testing::classifier;
using testing::images;
using testing::plan_of;
using testing::small_net;

TEST_CASE("layout: every tensor meets its kernel in the layout that the kernel wants") {
  const auto device = kernels::make_cpu_device(1);
  const Plan plan = plan_of(classifier(small_net), *device);
  for (const model::Node& node : plan.graph.nodes()) {
    if (node.op->name() == "reorder") continue;
    kernels::KernelIo io = plan.graph.io(node);
    const kernels::KernelIo settled = io;
    node.op->choose_layouts(*device, io);
    for (std::size_t i = 0; i < io.inputs.size(); ++i) {
      CHECK(io.inputs[i].layout_or_row_major() == settled.inputs[i].layout_or_row_major());
    }
  }
  for (const model::Parameter& parameter : plan.graph.parameters()) {
    CHECK(plan.graph.value(parameter.gradient).layout == plan.graph.value(parameter.value).layout);
  }
}

TEST_CASE("layout: every node has a key of its own, the copies to other layouts too") {
  const auto device = kernels::make_cpu_device(1);
  PlanConstraints constraints;
  const Plan first = plan_of(classifier(small_net), *device);
  for (const model::Parameter& parameter : first.graph.parameters()) {
    const model::Value& value = first.graph.value(parameter.value);
    constraints.parameter_layouts[value.name] = kernels::Layout::row_major(value.type.shape);
  }
  const Plan plan = make_plan(classifier(small_net), images, {.key = {.batch = 3}}, *device, constraints);
  std::set<std::string> keys;
  for (const model::Node& node : plan.graph.nodes()) {
    INFO(node.key());
    CHECK(node.id >= 0);
    CHECK(keys.insert(node.key()).second);
  }
}

TEST_CASE("layout: parameters of a later plan have the layouts of the first") {
  const auto device = kernels::make_cpu_device(1);
  const Plan first = plan_of(classifier(small_net), *device);
  const PlanConstraints constraints{.parameter_layouts = parameter_layouts(first.graph)};
  const Plan second = make_plan(classifier(small_net), images, {.key = {.batch = 3}}, *device, constraints);
  CHECK(parameter_layouts(second.graph) == constraints.parameter_layouts);
  CHECK(second.arena.elements == first.arena.elements);
}

}  // namespace
}  // namespace lockstep::runtime
