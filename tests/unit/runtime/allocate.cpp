#include "runtime/plan/allocate.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/base/alignment.h"
#include "kernels/external_op.h"
#include "model/define_op.h"
#include "model/zoo/zoo.h"
#include "runtime/plan/lifetime_allocator.h"
#include "runtime/plan/value_memory.h"
#include "tests/support/catch.h"
#include "tests/unit/runtime/one_replica.h"
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

bool is_lent(const Plan& plan, model::ValueId id) {
  return plan.activations
      .is_lent[static_cast<std::size_t>(plan.activations.storage[static_cast<std::size_t>(id)])];
}

/// Where a value lies in the activation arena or, behind all of that, in the gradient arena.
std::pair<std::size_t, std::size_t> range_of(const Plan& plan, model::ValueId id) {
  const model::ValueId root = plan.activations.storage[static_cast<std::size_t>(id)];
  const std::size_t offset = plan.activations.offsets[static_cast<std::size_t>(root)] +
                             (is_lent(plan, id) ? plan.activations.bytes : 0);
  return {offset, offset + allocated_bytes(plan.graph.value(id))};
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
      CHECK(end <= plan.activations.bytes + (is_lent(plan, output) ? plan.arena.gradient_bytes() : 0));
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
      CHECK((is_lent(plan, output) || range_of(plan, output).second <= plan.activations.bytes));
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

/// The gradient arena while the nodes of a plan run: by byte, the first node at which it is not idle any
/// more.
std::vector<std::size_t> idle_until(const Plan& plan) {
  constexpr std::size_t always = Lifetime::for_ever;
  std::vector<std::size_t> until(plan.arena.gradient_bytes(), 0);
  const auto& nodes = plan.graph.nodes();
  for (const ArenaSlice& slice : plan.arena.slices) {
    const model::Parameter& parameter = plan.graph.parameters()[slice.parameter];
    const auto writer = plan.graph.producer(parameter.gradient);
    const bool trains = plan.key().mode == Mode::train;
    std::size_t first = trains ? writer.value_or(0) : always;
    for (std::size_t at = 0; trains && at < first; ++at) {  // what the gradient is made of lies there, too
      for (const model::ValueId id : nodes[at].outputs) {
        if (plan.activations.storage[static_cast<std::size_t>(id)] == parameter.gradient) first = at;
      }
    }
    if (slice.count != plan.graph.value(parameter.value).type.shape.elements()) first = 0;
    const std::size_t element = size_of(plan.arena.gradient_dtype);
    std::fill_n(until.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(slice.first) * element),
                static_cast<std::size_t>(slice.count) * element, first);
  }
  return until;
}

struct Lent {
  std::size_t bytes = 0;
  std::size_t too_late = 0;  ///< bytes that a node reads or writes when they are not idle any more
};

Lent look_at(const Plan& plan) {
  const std::vector<std::size_t> until = idle_until(plan);
  Lent lent;
  const auto look = [&](const Operand& operand, std::size_t bytes, std::size_t node) {
    if (operand.region != Region::idle_gradients) return;
    lent.bytes += bytes;
    for (std::size_t at = 0; at < bytes; ++at) {
      if (until[static_cast<std::size_t>(operand.first) + at] <= node) ++lent.too_late;
    }
  };
  for (std::size_t node = 0; node < plan.launches.nodes.size(); ++node) {
    const Launch& launch = plan.launches.nodes[node];
    std::vector<kernels::TensorDesc> tensors = launch.io.inputs;
    tensors.insert(tensors.end(), launch.io.outputs.begin(), launch.io.outputs.end());
    for (std::size_t i = 0; i < tensors.size(); ++i) look(launch.operands[i], tensors[i].bytes(), node);
    if (launch.kernel != nullptr) look(launch.workspace, launch.kernel->workspace_bytes(), node);
  }
  return lent;
}

/// Its gradients are larger than its activations; there is padding behind the last bias.
Tensor wide_net(Tensor x) {
  for (const char* name : {"fc1", "fc2", "fc3", "fc4"}) x = relu(linear(flatten(x), name, 192));
  return linear(x, "head", 10);
}

TEST_CASE("allocate: activations and scratch memory lie in gradients that are not there yet") {
  const auto device = kernels::make_cpu_device(1);
  const DType gradients = GENERATE(DType::f32, DType::bf16);
  PlanConstraints constraints{.gradient_dtype = gradients};
  PlanRequest request{.key = {.batch = 4}, .buckets = testing::bucket_for_each};
  const Plan training = make_plan(classifier(wide_net), testing::images, request, *device, constraints);
  const Lent lent = look_at(training);
  CHECK(lent.bytes > 0);
  CHECK(lent.too_late == 0);
  CHECK(training.activations.bytes < allocate_activations(training.graph).bytes);

  request.key.mode = Mode::evaluate;
  CHECK(look_at(make_plan(classifier(wide_net), testing::images, request, *device, constraints)).bytes == 0);
  constraints.arena = training.arena;
  constraints.parameter_layouts = parameter_layouts(training.graph);
  const Plan evaluation = make_plan(classifier(wide_net), testing::images, request, *device, constraints);
  CHECK(look_at(evaluation).bytes > 0);
  CHECK(look_at(evaluation).too_late == 0);
  CHECK(evaluation.activations.bytes == 0);
}

/// An op whose kernel wants scratch memory.
struct Scratch : kernels::ExternalRules {
  std::string plugin() const override { return "test"; }
  std::string name() const override { return "scratch"; }
  kernels::Types infer(kernels::TypeSpan in) const override { return {in[0]}; }
  kernels::ExternalKernel cpu_kernel(const kernels::KernelIo&) const override {
    return {.run = [](const kernels::Addresses&) {}, .workspace_bytes = 4096};
  }
};

TEST_CASE("allocate: scratch memory in gradients begins where kernels are promised that it does") {
  const auto net = [](Tensor x) {
    const kernels::ExternalOp op{std::make_shared<Scratch>()};
    const model::Gradient<kernels::ExternalOp> none = nullptr;
    return wide_net(model::apply(x.graph(), op, none, {x}, "scratch"));
  };
  const testing::OneReplica replica(classifier(net), {PlanKey{.batch = 4}});
  int lent = 0;
  for (const Launch& launch : replica.plan().launches.nodes) {
    if (launch.workspace.region != Region::idle_gradients) continue;
    ++lent;
    const auto begin = reinterpret_cast<std::uintptr_t>(replica.memory().address(launch.workspace, 0));
    CHECK(begin % workspace_alignment == 0);
  }
  CHECK(lent > 0);
}

TEST_CASE("allocate: nothing lies in gradients that micro-batches add up, or that are still exchanged") {
  const auto device = kernels::make_cpu_device(1);
  const auto lent = [&](MicroBatchRole role, const ScheduleOptions& schedule) {
    return look_at(make_plan(classifier(wide_net), testing::images,
                             {.key = {.role = role, .batch = 4}, .schedule = schedule}, *device, {}))
        .bytes;
  };
  CHECK(lent(MicroBatchRole::first, {}) > 0);
  CHECK(lent(MicroBatchRole::middle, {}) == 0);
  CHECK(lent(MicroBatchRole::last, {}) == 0);
  CHECK(lent(MicroBatchRole::only, {.exchange = true}) > 0);
  CHECK(lent(MicroBatchRole::only, {.exchange = true, .defers = true}) == 0);
}

/// The gradient of `gain` is made of what rms_norm gives, in its place.
Tensor net_with_gain(Tensor x) {
  const Tensor table = parameter(x.graph(), "table", {8, 8}, {.bound = 1});
  const Tensor gain = parameter(x.graph(), "gain", {8, 8}, {.bound = 1});
  return linear(flatten(add(x, mul(rms_norm(table, "norm"), gain))), "head", 10);
}

TEST_CASE("allocate: forward writes nothing where gradients of the step before are still exchanged") {
  const auto device = kernels::make_cpu_device(1);
  const auto in_gradients = [&](const ScheduleOptions& schedule) {
    const Plan plan = make_plan(classifier(net_with_gain), testing::images,
                                {.key = {.batch = 4}, .schedule = schedule}, *device, {});
    std::ptrdiff_t count = 0;
    for (std::size_t node = 0; node < plan.launches.nodes.size(); ++node) {
      if (plan.graph.nodes()[node].phase == model::Phase::backward) continue;
      count += std::ranges::count(plan.launches.nodes[node].operands, Region::gradients, &Operand::region);
    }
    return count;
  };
  CHECK(in_gradients({.exchange = true}) > 0);
  CHECK(in_gradients({.exchange = true, .defers = true}) == 0);
}

}  // namespace
}  // namespace lockstep::runtime
