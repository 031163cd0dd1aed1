#include "runtime/plan/passes/passes.h"

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

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

/// Names of parameters whose layout `pad_pictures` fixes, in a step that computes in `dtype`.
std::vector<std::string> padded(DType dtype, std::int64_t channels,
                                std::function<model::Tensor(model::Tensor)> net, bool trains = true) {
  const model::InputSpec pictures{.shape = {channels, 8, 8}, .num_classes = 10};
  model::Graph graph = build_graph(classifier(std::move(net)), pictures, 4, trains);
  autocast(graph, dtype);
  if (trains) differentiate(graph);
  fuse(graph);
  if (is_half(dtype)) copy_parameters(graph, dtype);
  pad_pictures(graph);
  std::vector<std::string> names;
  for (const model::Parameter& parameter : graph.parameters()) {
    const model::Value& value = graph.value(parameter.value);
    if (!value.layout) continue;
    const Shape& shape = value.type.shape;
    CHECK(value.layout == kernels::channels_last({shape[0], 8, shape[2], shape[3]}));
    CHECK(graph.value(parameter.copy).layout == value.layout);
    names.push_back(value.name);
  }
  return names;
}

TEST_CASE("layout: pictures that the first convolution reads in a half type have room for 8 channels") {
  using Names = std::vector<std::string>;
  for (const std::int64_t channels : {2, 3, 7})
    CHECK(padded(DType::bf16, channels, small_net) == Names{"conv.weight"});
  for (const std::int64_t channels : {1, 8}) CHECK(padded(DType::bf16, channels, small_net).empty());
  CHECK(padded(DType::f32, 3, small_net).empty());
  // What a layer makes lies as that layer writes it.
  const auto second = [](model::Tensor x) {
    return small_net(relu(conv2d(x, "first", {.out_channels = 3, .kernel = 1})));
  };
  for (const bool trains : {true, false}) {
    CHECK(padded(DType::f16, 3, second, trains) == Names{"first.weight"});
  }
  CHECK(padded(DType::f16, 4, [](model::Tensor x) {
          return small_net(conv2d(x, "apart", {.out_channels = 4, .kernel = 1, .groups = 4}));
        }).empty());
}

}  // namespace
}  // namespace lockstep::runtime
