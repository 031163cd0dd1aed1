#include <algorithm>

#include "kernels/base/error.h"
#include "model/model.h"
#include "model/zoo/zoo.h"
#include "runtime/plan/differentiate.h"
#include "runtime/plan/fuse.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/print.h"
#include "runtime/plan/signature.h"
#include "runtime/plan/storage.h"
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

using Kind = Step::Kind;
constexpr BucketLimits bucket_for_each{.first_bytes = 1, .bytes = 1};

Plan plan_of(const model::Model& net, const kernels::Device& device, PlanRequest request = {}) {
  request.key.batch = 4;
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

Tensor net_with_unused(Tensor x) {
  conv2d(x, "spare", {.out_channels = 16, .kernel = 3});
  const Tensor y = linear(flatten(x), "head", 10);
  x.graph().add_parameter("lost", {5}, {.bound = 1});
  return y;
}

TEST_CASE("differentiate: parameters without influence are all named") {
  Graph graph = build_graph(classifier(net_with_unused), images, 4, true);
  CHECK_THAT(tests::message_of<UsageError>([&] { differentiate(graph); }),
             tests::contains("no gradient from the loss reaches 'spare.weight', 'spare.bias', 'lost': ") &&
                 tests::contains("--allow-unused"));
}

TEST_CASE("differentiate: where it is allowed, parameters without influence get zeros") {
  Graph graph = build_graph(classifier(net_with_unused), images, 4, true);
  differentiate(graph, true);
  CHECK(std::ranges::count(ops_of(graph), "fill") == 3);
  for (const model::Parameter& parameter : graph.parameters()) {
    CHECK(graph.value(parameter.gradient).role == model::Role::gradient);
    CHECK(graph.value(parameter.gradient).type == graph.value(parameter.value).type);
  }
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
  CHECK(std::ranges::count(ops_of(graph), "relu+add") == 1);
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
      CHECK(io.inputs[i].layout_or_row_major() == settled.inputs[i].layout_or_row_major());
    }
  }
  for (const model::Parameter& parameter : plan.graph.parameters()) {
    CHECK(plan.graph.value(parameter.gradient).layout == plan.graph.value(parameter.value).layout);
  }
}

TEST_CASE("layout: parameters of a later plan lie as in the first") {
  const auto device = kernels::make_cpu_device(1);
  const Plan first = plan_of(classifier(small_net), *device);
  const PlanConstraints decisions{.parameter_layouts = parameter_layouts(first.graph)};
  const Plan second = make_plan(classifier(small_net), images, {.key = {.batch = 3}}, *device, decisions);
  CHECK(parameter_layouts(second.graph) == decisions.parameter_layouts);
  CHECK(second.arena.elements == first.arena.elements);
}

TEST_CASE("bucket: in order of readiness, closed by the parameter that reaches the limit") {
  const auto device = kernels::make_cpu_device(1);
  const Plan one = plan_of(classifier(small_net), *device);
  REQUIRE(one.arena.buckets.size() == 1);
  CHECK(one.arena.slices.front().name == "fc2.weight");
  CHECK(one.arena.slices.back().name == "conv.bias");
  CHECK(one.arena.buckets[0].count == one.arena.elements);

  const Plan many = plan_of(classifier(small_net), *device, {.buckets = bucket_for_each});
  CHECK(many.arena.buckets.size() == many.arena.slices.size());
}

TEST_CASE("bucket: a rank's shard of a bucket is a slice, whatever the world") {
  const auto device = kernels::make_cpu_device(1);
  const int ranks = GENERATE(1, 2, 3, 8);
  BucketLimits limits = bucket_for_each;
  limits.ranks = ranks;
  const Plan plan = plan_of(classifier(small_net), *device, {.buckets = limits});
  std::int64_t end = 0;
  for (const Bucket& bucket : plan.arena.buckets) {
    CHECK(bucket.first == end);
    CHECK(bucket.count * 4 % (64 * ranks) == 0);
    end += bucket.count;
  }
  CHECK(end == plan.arena.elements);
  for (const ArenaSlice& slice : plan.arena.slices) {
    CHECK(slice.first * 4 % 64 == 0);
    CHECK(slice.first + slice.count <= plan.arena.elements);
  }
}

TEST_CASE("allocate: what is broadcast is not overwritten by what is computed from it") {
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
  const model::ZooEntry& entry = model::find_model("convnet", {});
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
      // Whoever is read from here on must not be touched by this output, unless it shares its place by
      // design.
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

TEST_CASE("allocate: an output that nobody reads shares no memory with the node's other operands") {
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

Plan plan_with_many_buckets(const kernels::Device& device, const ScheduleOptions& schedule,
                            double clip_grad_norm = 0) {
  return plan_of(classifier(small_net), device,
                 {.buckets = bucket_for_each, .schedule = schedule, .clip_grad_norm = clip_grad_norm});
}

std::size_t find(const Plan& plan, Kind kind, std::size_t index = 0) {
  const auto found = std::ranges::find_if(
      plan.steps, [&](const Step& step) { return step.kind == kind && step.index == index; });
  REQUIRE(found != plan.steps.end());
  return static_cast<std::size_t>(found - plan.steps.begin());
}

std::size_t count(const Plan& plan, Kind kind) {
  return static_cast<std::size_t>(std::ranges::count(plan.steps, kind, &Step::kind));
}

std::size_t find_all_reduce(const Plan& plan, std::size_t bucket) {
  const bool is_inline = std::ranges::any_of(plan.steps, [&](const Step& step) {
    return step.kind == Kind::all_reduce_inline && step.index == bucket;
  });
  return find(plan, is_inline ? Kind::all_reduce_inline : Kind::all_reduce, bucket);
}

/// Whether streams and events put `earlier` before `later`.
bool must_wait(const Plan& plan, std::size_t later, std::size_t earlier) {
  std::vector<bool> before(plan.steps.size());
  before[later] = true;
  for (std::size_t at = later; at > earlier; --at) {
    if (!before[at]) continue;
    const Step& step = plan.steps[at];
    for (std::size_t other = 0; other < at; ++other) {
      const Step& candidate = plan.steps[other];
      const bool signals =
          step.kind == Kind::wait && candidate.kind == Kind::record && candidate.index == step.index;
      if (signals || candidate.stream == step.stream) before[other] = true;
    }
  }
  return before[earlier];
}

const ScheduleOptions all_schedules[] = {
    {},
    {.overlap = false},
    {.stream_ordered = true},
    {.overlap = false, .stream_ordered = true},
};

TEST_CASE("schedule: whatever a step does waits for what it needs") {
  const auto device = kernels::make_cpu_device(1);
  const double clip_grad_norm = GENERATE(0.0, 2.0);
  const ScheduleOptions schedule = GENERATE(from_range(std::begin(all_schedules), std::end(all_schedules)));
  CAPTURE(clip_grad_norm, schedule.overlap, schedule.stream_ordered);
  const Plan plan = plan_with_many_buckets(*device, schedule, clip_grad_norm);
  const auto ready = bucket_ready_nodes(plan.graph, plan.arena);
  const auto last_reader = bucket_last_readers(plan.graph, plan.arena);
  const std::size_t nodes = plan.graph.nodes().size();
  const std::size_t begin = find(plan, Kind::begin_step);
  CHECK(must_wait(plan, begin, find(plan, Kind::copy_in)));
  CHECK(plan.steps.front().kind == Kind::copy_in);
  CHECK(plan.steps.back().kind == Kind::copy_back);
  for (std::size_t node = 0; node < nodes; ++node)
    CHECK(must_wait(plan, find(plan, Kind::launch, node), begin));
  for (std::size_t bucket = 0; bucket < plan.arena.buckets.size(); ++bucket) {
    const std::size_t sum = find_all_reduce(plan, bucket);
    const std::size_t update = find(plan, Kind::update, bucket);
    CHECK(must_wait(plan, sum, find(plan, Kind::launch, ready[bucket])));
    if (bucket > 0) CHECK(must_wait(plan, sum, find_all_reduce(plan, bucket - 1)));
    CHECK(must_wait(plan, update, sum));
    CHECK(must_wait(plan, update, find(plan, Kind::launch, last_reader[bucket])));
    CHECK(must_wait(plan, plan.steps.size() - 1, update));
    if (clip_grad_norm == 0) continue;
    CHECK(must_wait(plan, find(plan, Kind::clip), sum));
    CHECK(must_wait(plan, find(plan, Kind::clip), find(plan, Kind::launch, nodes - 1)));
    CHECK(must_wait(plan, update, find(plan, Kind::clip)));
  }
  CHECK(count(plan, Kind::clip) == (clip_grad_norm > 0 ? 1 : 0));
  CHECK(count(plan, Kind::update) == plan.arena.buckets.size());
}

TEST_CASE("schedule: the queue sums all buckets but the last, and is joined before anybody needs a sum") {
  const auto device = kernels::make_cpu_device(1);
  const Plan plan = plan_with_many_buckets(*device, {});
  const std::size_t join = find(plan, Kind::join);
  CHECK(count(plan, Kind::join) == 1);
  CHECK(count(plan, Kind::all_reduce) > 0);
  CHECK(count(plan, Kind::all_reduce_inline) > 0);
  CHECK(find_all_reduce(plan, plan.arena.buckets.size() - 1) > join);
  CHECK(find(plan, Kind::launch, plan.graph.nodes().size() - 1) < join);
  for (std::size_t at = 0; at < plan.steps.size(); ++at) {
    const Step& step = plan.steps[at];
    if (step.queued) CHECK(at < join);
    CHECK((step.kind == Kind::all_reduce) ==
          (step.queued && step.kind != Kind::wait && step.kind != Kind::record));
    if (step.kind == Kind::update) CHECK(at > join);
  }
  const Plan serial = plan_with_many_buckets(*device, {.overlap = false});
  CHECK(std::ranges::none_of(serial.steps, &Step::queued));
  CHECK(count(serial, Kind::all_reduce) + count(serial, Kind::join) == 0);
}

TEST_CASE("schedule: on streams updates overlap backward, unless gradients are clipped") {
  const auto device = kernels::make_cpu_device(1);
  const double clip_grad_norm = GENERATE(0.0, 2.0);
  const Plan plan = plan_with_many_buckets(*device, {.stream_ordered = true}, clip_grad_norm);
  const std::size_t last_node = find(plan, Kind::launch, plan.graph.nodes().size() - 1);
  CHECK(must_wait(plan, find(plan, Kind::update), last_node) == (clip_grad_norm > 0));
  CHECK_FALSE(must_wait(plan, find(plan, Kind::all_reduce), last_node));
  CHECK(std::ranges::none_of(plan.steps, &Step::queued));
}

TEST_CASE("schedule: a rank alone exchanges nothing and waits for nothing") {
  const auto device = kernels::make_cpu_device(1);
  const Plan plan = plan_with_many_buckets(*device, {.exchange = false});
  CHECK(std::ranges::all_of(plan.steps, [](const Step& s) { return s.stream == StreamName::compute; }));
  CHECK(plan.events.empty());
}

TEST_CASE("signature: ranks that place, pad or type their arenas differently are told apart") {
  const auto device = kernels::make_cpu_device(1);
  const auto signature = [&](const BucketLimits& limits) {
    return exchange_signature(plan_of(classifier(small_net), *device, {.buckets = limits}), *device, {});
  };
  BucketLimits of_three = bucket_for_each;
  of_three.ranks = 3;
  CHECK(signature(bucket_for_each) == signature(bucket_for_each));
  CHECK(signature(bucket_for_each) != signature(of_three));
  CHECK(signature(bucket_for_each) != signature({}));
  const std::string elements = std::to_string(plan_of(classifier(small_net), *device).arena.elements);
  for (const std::string& entry :
       {std::string("parameter fc2.weight f32 10x6 at element 0 "),
        "bucket at element 0 of " + elements + " with the control block\n",
        "arenas of " + elements + " f32\n", std::string("control block of 16 f32\n")}) {
    CHECK_THAT(signature({}), tests::contains(entry));
  }
}

/// Needs scratch memory.
class Greedy : public kernels::Kernel {
 public:
  explicit Greedy(std::size_t bytes) : bytes_(bytes) {}
  std::size_t workspace_bytes() const override { return bytes_; }
  std::unique_ptr<kernels::BoundKernel> bind(std::span<void* const>, void*) const override { return nullptr; }

 private:
  std::size_t bytes_;
};

TEST_CASE("workspace: that of updates is counted, and apart from that of kernels that run beside them") {
  const auto device = kernels::make_cpu_device(1);
  const bool stream_ordered = GENERATE(false, true);
  Plan plan = plan_with_many_buckets(*device, {.stream_ordered = stream_ordered});
  const std::size_t before = plan.workspace_bytes;
  for (Launch& update : plan.launches.updates) update.kernel = std::make_unique<Greedy>(1 << 20);
  const std::size_t after = assign_workspace(plan.launches, plan.steps);
  CHECK(after == (stream_ordered ? before + (1 << 20) : std::max<std::size_t>(before, 1 << 20)));
  for (const Step& step : plan.steps) {
    const Launch* const launch = plan.launch_of(step);
    if (launch == nullptr || launch->kernel == nullptr) continue;
    CHECK(launch->workspace + launch->kernel->workspace_bytes() <= after);
    if (stream_ordered) CHECK((launch->workspace >= before) == (step.kind == Kind::update));
  }
}

TEST_CASE("workspace: a plan's covers that of every launch") {
  const auto device = kernels::make_cpu_device(1);
  const Plan plan = plan_with_many_buckets(*device, {}, 2);
  REQUIRE(plan.launches.clip.kernel != nullptr);
  CHECK(plan.launches.clip.kernel->workspace_bytes() > 0);
  CHECK(plan.workspace_bytes >= plan.launches.clip.workspace + plan.launches.clip.kernel->workspace_bytes());
}

TEST_CASE("print: every step of a plan is a line, with its stream") {
  const auto device = kernels::make_cpu_device(1);
  const Plan plan = plan_with_many_buckets(*device, {}, 2);
  const std::string text = to_text(plan, {});
  for (const Step& step : plan.steps) {
    if (step.kind != Kind::launch) CHECK_THAT(text, tests::contains(label_of(plan, step)));
  }
  for (const char* line :
       {"compute    begin step", "exchange q all-reduce of bucket 0 (fc2.weight), behind compute",
        "compute    join the exchange queue", "compute    clip gradients to norm 2",
        "compute    update of bucket 0 (fc2.weight)", "compute    copy the control block to the host"}) {
    CHECK_THAT(text, tests::contains(line));
  }
}

}  // namespace
}  // namespace lockstep::runtime
