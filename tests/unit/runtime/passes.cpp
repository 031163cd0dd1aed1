#include <algorithm>

#include "kernels/base/error.h"
#include "model/model.h"
#include "model/zoo/zoo.h"
#include "runtime/plan/differentiate.h"
#include "runtime/plan/fuse.h"
#include "runtime/plan/plan.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/unit/runtime/classifier.h"

namespace lockstep::runtime {
namespace {

using model::Graph;
using model::Tensor;
using testing::classifier;
using testing::images;

Tensor small_net(Tensor x) {
  x = max_pool2d(relu(conv2d(x, "conv", {.out_channels = 4, .kernel = 3, .padding = 1})));
  return linear(relu(linear(flatten(x), "fc1", 6)), "fc2", 10);
}

std::vector<std::string> ops_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const model::Node& node : graph.nodes()) {
    const std::string attributes = node.op->attributes();
    const bool fused =
        attributes.find('+') != std::string::npos || attributes.find("relu_mask") != std::string::npos;
    names.push_back(node.op->name() + (fused ? "+" : ""));
  }
  return names;
}

Plan plan_of(const model::Model& net, const kernels::Device& device, PlanRequest request = {}) {
  request.batch_size = 4;
  request.schedule.exchange = true;
  return make_plan(net, images, request, device, {});
}

TEST_CASE("differentiate: weights before data, in reverse, and no gradient of the input") {
  Graph graph = build_graph(classifier(small_net), images, 4, true);
  differentiate(graph);
  CHECK(ops_of(graph) == std::vector<std::string>{
                             "conv2d", "relu", "max_pool2d", "reshape", "linear", "relu", "linear",
                             "softmax_cross_entropy", "linear_backward_weights", "linear_backward_data",
                             "relu_backward", "linear_backward_weights", "linear_backward_data", "reshape",
                             "max_pool2d_backward", "relu_backward", "conv2d_backward_weights"});
  for (const model::Parameter& parameter : graph.parameters()) {
    CHECK(graph.value(parameter.gradient).role == model::Role::gradient);
  }
}

TEST_CASE("differentiate: a value used twice gets the sum of both gradients") {
  Graph graph = build_graph(classifier([](Tensor x) {
                              const Tensor h = linear(flatten(x), "a", 10);
                              return add(relu(h), h);
                            }),
                            images, 4, true);
  differentiate(graph);
  CHECK(std::ranges::count(ops_of(graph), "add") == 2);  // one forward, one of gradients
}

TEST_CASE("differentiate: a parameter without influence is named") {
  Graph graph = build_graph(classifier([](Tensor x) {
                              linear(x, "unused", 3);
                              return linear(flatten(x), "head", 10);
                            }),
                            images, 4, true);
  CHECK_THAT(tests::message_of<UsageError>([&] { differentiate(graph); }),
             tests::contains("'unused.weight' does not reach the loss"));
}

TEST_CASE("fuse: relu into its producer, its gradient into pooling, flatten into the linear layer") {
  Graph graph = build_graph(classifier(small_net), images, 4, true);
  differentiate(graph);
  fuse(graph);
  CHECK(ops_of(graph) == std::vector<std::string>{"conv2d+", "max_pool2d", "linear+", "linear",
                                                  "softmax_cross_entropy", "linear_backward_weights",
                                                  "linear_backward_data", "relu_backward",
                                                  "linear_backward_weights", "linear_backward_data",
                                                  "max_pool2d_backward+", "conv2d_backward_weights"});
  const auto fc1 = std::ranges::find_if(graph.parameters(), [&](const model::Parameter& p) {
    return graph.value(p.value).name == "fc1.weight";
  });
  CHECK(fc1->file_shape == Shape{6, 64});
  CHECK(graph.value(fc1->value).type.shape == Shape{6, 4, 4, 4});
  CHECK(graph.value(fc1->gradient).type.shape == Shape{6, 4, 4, 4});
}

TEST_CASE("fuse: a relu stays when its input is read by others too") {
  Graph graph = build_graph(classifier([](Tensor x) {
                              const Tensor h = linear(flatten(x), "a", 10);
                              return add(relu(h), h);
                            }),
                            images, 4, true);
  fuse(graph);
  CHECK(std::ranges::count(ops_of(graph), "relu") == 1);
}

TEST_CASE("layout: every tensor meets its kernel in the layout that the kernel wants") {
  const auto device = kernels::make_cpu_device(1);
  const Plan plan = plan_of(classifier(small_net), *device);
  for (const model::Node& node : plan.graph.nodes()) {
    if (node.op->name() == "reorder") continue;
    kernels::KernelIo io = plan.graph.io(node);
    const kernels::KernelIo settled = io;
    node.op->choose_layouts(*device, io);
    for (std::size_t i = 0; i < io.inputs.size(); ++i) {
      CHECK(io.inputs[i].layout_or_plain() == settled.inputs[i].layout_or_plain());
    }
  }
  for (const model::Parameter& parameter : plan.graph.parameters()) {
    CHECK(plan.graph.value(parameter.gradient).layout == plan.graph.value(parameter.value).layout);
  }
}

TEST_CASE("layout: parameters of a later plan lie as in the first") {
  const auto device = kernels::make_cpu_device(1);
  const Plan first = plan_of(classifier(small_net), *device);
  const RunDecisions decisions{.parameter_layouts = parameter_layouts(first.graph)};
  const Plan second = make_plan(classifier(small_net), images, {.batch_size = 3}, *device, decisions);
  CHECK(parameter_layouts(second.graph) == decisions.parameter_layouts);
  CHECK(second.arena.parameter_bytes == first.arena.parameter_bytes);
}

TEST_CASE("bucket: in order of readiness, closed by the parameter that reaches the limit") {
  const auto device = kernels::make_cpu_device(1);
  const Plan one = plan_of(classifier(small_net), *device);
  REQUIRE(one.arena.buckets.size() == 1);
  CHECK(one.arena.slices.front().name == "fc2.weight");
  CHECK(one.arena.slices.back().name == "conv.bias");
  CHECK(one.arena.buckets[0].bytes == one.arena.gradient_bytes);
  CHECK(one.arena.control_offset + sizeof(kernels::ControlBlock) == one.arena.gradient_bytes);

  PlanRequest request;
  request.buckets = {.first_bytes = 1, .bytes = 1};
  const Plan many = plan_of(classifier(small_net), *device, request);
  CHECK(many.arena.buckets.size() == many.arena.slices.size());
  std::size_t end = 0;
  for (const Bucket& bucket : many.arena.buckets) {
    CHECK(bucket.offset == end);
    CHECK(bucket.bytes % 64 == 0);
    end += bucket.bytes;
  }
  CHECK(end == many.arena.gradient_bytes);
}

TEST_CASE("allocate: values that live at the same time never share memory") {
  const auto device = kernels::make_cpu_device(1);
  const model::ZooEntry& entry = model::find_model("convnet", {});
  const model::InputSpec input = entry.wants({});
  const Plan plan = make_plan(entry.make({}, input), input, {.batch_size = 4}, *device, {});
  const auto& nodes = plan.graph.nodes();
  const auto root = [&](model::ValueId id) { return plan.activations.storage[static_cast<std::size_t>(id)]; };
  const auto range = [&](model::ValueId id) {
    const std::size_t offset = plan.activations.offsets[static_cast<std::size_t>(root(id))];
    const model::Value& value = plan.graph.value(id);
    const kernels::TensorDesc desc{
        .dtype = value.type.dtype, .shape = value.type.shape, .layout = value.layout};
    return std::pair{offset, offset + desc.bytes()};
  };
  std::size_t without_sharing = 0;
  for (std::size_t at = 0; at < nodes.size(); ++at) {
    for (const model::ValueId output : nodes[at].outputs) {
      if (plan.graph.value(root(output)).role != model::Role::activation) continue;
      const auto [begin, end] = range(output);
      CHECK(end <= plan.activations.bytes);
      without_sharing += end - begin;
      // Whoever is read from here on must not be touched by this output, unless it shares its place by
      // design.
      for (std::size_t later = at; later < nodes.size(); ++later) {
        for (const model::ValueId input_id : nodes[later].inputs) {
          const auto written = plan.graph.producer(input_id);
          if (!written || *written >= at || root(input_id) == root(output)) continue;
          if (plan.graph.value(root(input_id)).role != model::Role::activation) continue;
          const auto [other_begin, other_end] = range(input_id);
          CHECK((end <= other_begin || other_end <= begin));
        }
      }
    }
  }
  CHECK(plan.activations.bytes < without_sharing);
}

/// A bucket for each parameter.
Plan plan_with_many_buckets(const kernels::Device& device, const ScheduleOptions& schedule) {
  PlanRequest request;
  request.buckets = {.first_bytes = 1, .bytes = 1};
  request.schedule = schedule;
  return plan_of(classifier(small_net), device, request);
}

TEST_CASE("schedule: a bucket goes out behind its last gradient, updates come last") {
  const auto device = kernels::make_cpu_device(1);
  const Plan plan = plan_with_many_buckets(*device, {});
  const auto ready = bucket_ready_nodes(plan.graph, plan.arena);
  std::size_t launched = 0;
  std::size_t exchanged = 0;
  std::size_t updated = 0;
  for (const Step& step : plan.steps) {
    switch (step.kind) {
      case Step::Kind::launch:
        CHECK(step.index == launched++);
        break;
      case Step::Kind::exchange:
      case Step::Kind::exchange_now:
        CHECK(step.index == exchanged++);
        CHECK(ready[step.index] < launched);
        break;
      case Step::Kind::update:
        CHECK(step.index == updated++);
        CHECK(launched == plan.graph.nodes().size());
        CHECK(exchanged == plan.arena.buckets.size());
        break;
      case Step::Kind::clip:
        FAIL("nobody has asked for it");
        break;
    }
  }
  CHECK(updated == plan.arena.buckets.size());
  CHECK(std::ranges::count(plan.steps, Step::Kind::exchange, &Step::kind) > 0);
  CHECK(plan.steps[plan.steps.size() - updated - 1].kind == Step::Kind::exchange_now);

  const Plan serial = plan_with_many_buckets(*device, {.overlap = false});
  CHECK(std::ranges::count(serial.steps, Step::Kind::exchange, &Step::kind) == 0);
}

TEST_CASE("schedule: on streams an update follows its exchange and the last reader of its parameters") {
  const auto device = kernels::make_cpu_device(1);
  const Plan plan = plan_with_many_buckets(*device, {.on_streams = true});
  const auto ready = bucket_ready_nodes(plan.graph, plan.arena);
  const auto last_reader = bucket_last_readers(plan.graph, plan.arena);
  std::size_t launched = 0;
  std::size_t exchanged = 0;
  std::size_t updated = 0;
  std::size_t updated_during_backward = 0;
  for (const Step& step : plan.steps) {
    switch (step.kind) {
      case Step::Kind::launch:
        CHECK(step.index == launched++);
        break;
      case Step::Kind::exchange:
        CHECK(step.index == exchanged++);
        CHECK(ready[step.index] < launched);
        break;
      case Step::Kind::exchange_now:
      case Step::Kind::clip:
        FAIL("nothing occupies the compute stream, and nobody has asked to clip");
        break;
      case Step::Kind::update:
        CHECK(step.index == updated++);
        CHECK(step.index < exchanged);
        CHECK(last_reader[step.index] < launched);
        if (launched < plan.graph.nodes().size()) ++updated_during_backward;
        break;
    }
  }
  CHECK(updated == plan.arena.buckets.size());
  CHECK(updated_during_backward > 0);
}

TEST_CASE("schedule: with clipping the norm follows all exchanges, and all updates follow the norm") {
  const auto device = kernels::make_cpu_device(1);
  const ScheduleOptions schedule =
      GENERATE(ScheduleOptions{}, ScheduleOptions{.overlap = false}, ScheduleOptions{.on_streams = true},
               ScheduleOptions{.overlap = false, .on_streams = true});
  PlanRequest request{.buckets = {.first_bytes = 1, .bytes = 1}, .schedule = schedule, .clip_grad_norm = 2};
  const Plan plan = plan_of(classifier(small_net), *device, request);
  REQUIRE(plan.gradient_norm != nullptr);
  CHECK(plan.workspace_bytes >= plan.gradient_norm->workspace_bytes());
  const auto buckets = static_cast<std::ptrdiff_t>(plan.arena.buckets.size());
  const auto clip = std::ranges::find(plan.steps, Step::Kind::clip, &Step::kind);
  REQUIRE(plan.steps.end() - clip == 1 + buckets);
  CHECK(std::all_of(clip + 1, plan.steps.end(), [](const Step& s) { return s.kind == Step::Kind::update; }));
  const auto exchanges = [](const Step& s) {
    return s.kind == Step::Kind::exchange || s.kind == Step::Kind::exchange_now;
  };
  CHECK(std::count_if(plan.steps.begin(), clip, exchanges) == buckets);
}

}  // namespace
}  // namespace lockstep::runtime
