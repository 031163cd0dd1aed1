#include "runtime/plan/passes/passes.h"

#include <algorithm>
#include <bit>
#include <map>

#include "kernels/base/philox.h"
#include "kernels/pointwise.h"
#include "kernels/step_state.h"
#include "model/model.h"
#include "tests/support/catch.h"

namespace lockstep::runtime {
namespace {

using model::Graph;
using model::Node;
using model::Phase;
using model::Role;
using model::Tensor;
using model::ValueId;

using Titles = std::vector<std::string>;

Titles titles(const Graph& graph) {
  Titles titles;
  for (const Node& node : graph.nodes()) titles.push_back(node.op->name());
  return titles;
}

const Shape full{2, 3, 5, 7};

/// A graph under test: values that come from elsewhere, by shape.
struct Network {
  Graph graph;

  Tensor given(const Shape& shape = full) {
    return {graph, graph.add_value("given", {DType::f32, shape}, Role::activation)};
  }
  Titles fused(Tensor output) {
    graph.output = output.id();
    fuse(graph);
    return titles(graph);
  }
};

TEST_CASE(
    "fuse_pointwise: a chain over rows and channels is one node with the last one's id, place and phase") {
  Network net;
  const Tensor x = net.given();
  const Tensor channel = net.given({3, 1, 1});
  const Tensor row = net.given({7});
  const Tensor y = add(mul(relu(add(x, channel)), row), x);
  const Node last = net.graph.nodes().back();
  CHECK(net.fused(y) == Titles{"add+relu+mul+add"});
  const Node& joined = net.graph.nodes().front();
  CHECK(joined.id == last.id);
  CHECK(joined.layer == "add+relu+mul+add");
  CHECK(joined.phase == Phase::forward);
  CHECK(joined.inputs == std::vector<ValueId>{x.id(), channel.id(), row.id()});
  CHECK(joined.outputs == std::vector<ValueId>{y.id()});
}

TEST_CASE("fuse_pointwise: a result of a chain that other nodes read is an output too") {
  Network net;
  const Tensor h = relu(mul(net.given(), net.given()));
  const Tensor y = add(h, net.given({7}));
  const Tensor read = avg_pool2d(h);
  CHECK(net.fused(read) == Titles{"mul+relu+add", "avg_pool2d"});
  CHECK(net.graph.nodes()[0].outputs == std::vector<ValueId>{h.id(), y.id()});
}

TEST_CASE("fuse_pointwise: the network's output and gradients of parameters are kept") {
  Network net;
  const Tensor h = relu(net.given());
  const Tensor y = mul(h, net.given());
  net.graph.value(h.id()).role = GENERATE(Role::activation, Role::gradient);
  CHECK(net.fused(net.graph.value(h.id()).role == Role::gradient ? y : h) == Titles{"relu+mul"});
  CHECK(net.graph.nodes()[0].outputs == std::vector<ValueId>{h.id(), y.id()});
}

TEST_CASE("fuse_pointwise: no node moves across one that reads what it writes") {
  Network net;
  const Tensor h = relu(net.given());
  const Tensor pooled = avg_pool2d(h, {.kernel = 1});
  CHECK(net.fused(add(pooled, h)) == Titles{"relu", "avg_pool2d", "add"});
}

TEST_CASE("fuse_pointwise: no node moves across one that writes what it reads") {
  Network net;
  const Tensor x = net.given();
  const Tensor h = relu(x);
  avg_pool2d(net.given(), {.kernel = 1});
  net.graph.nodes().back().outputs.push_back(x.id());
  CHECK(net.fused(add(h, net.given())) == Titles{"relu", "avg_pool2d", "add"});
}

TEST_CASE("fuse_pointwise: across a node that has nothing to do with it, a node moves") {
  Network net;
  const Tensor h = relu(net.given());
  const Tensor pooled = avg_pool2d(net.given(), {.kernel = 1});
  CHECK(net.fused(add(pooled, h)) == Titles{"avg_pool2d", "relu+add"});
}

TEST_CASE("fuse_pointwise: a broadcast operand is not computed again for each repetition") {
  Network net;
  CHECK(net.fused(add(net.given(), relu(net.given({7})))) == Titles{"relu", "add"});
}

TEST_CASE("fuse_pointwise: nodes of forward and backward stay apart") {
  Network net;
  const Tensor y = add(relu(net.given()), net.given());
  net.graph.nodes().back().phase = Phase::backward;
  CHECK(net.fused(y) == Titles{"relu", "add"});
}

TEST_CASE("fuse_pointwise: a chain ends where a kernel's steps, inputs or outputs do") {
  SECTION("steps") {
    Network net;
    Tensor y = net.given();
    for (int i = 0; i < 9; ++i) y = relu(y);
    CHECK(net.fused(y) == Titles{"relu+relu+relu+relu+relu+relu+relu+relu", "relu"});
  }
  SECTION("inputs") {
    Network net;
    Tensor y = net.given();
    for (int i = 0; i < 6; ++i) y = add(y, net.given());
    CHECK(net.fused(y) == Titles{"add+add+add+add+add", "add"});
  }
  SECTION("outputs") {
    Network net;
    std::vector<Tensor> y{net.given()};
    for (int i = 0; i < 4; ++i) y.push_back(relu(y.back()));
    for (const Tensor& read : y) avg_pool2d(read);
    net.fused(y.back());
    CHECK(net.graph.nodes()[0].op->name() == "relu+relu+relu");
    CHECK(net.graph.nodes()[1].op->name() == "relu");
  }
}

TEST_CASE("fuse_pointwise: a chain is none of its functions, nor is a gradient its function") {
  using kernels::Pointwise;
  using kernels::PointwiseFunction;
  using kernels::PointwisePart;
  const Pointwise gradient = Pointwise::single(PointwiseFunction::relu, PointwisePart::gradient);
  CHECK(Pointwise::single(PointwiseFunction::relu).is(PointwiseFunction::relu));
  CHECK_FALSE(Pointwise::single(PointwiseFunction::relu).is(PointwiseFunction::add));
  CHECK_FALSE(gradient.is(PointwiseFunction::relu));
  CHECK(gradient.is(PointwiseFunction::relu, PointwisePart::gradient));
  Network net;
  net.fused(add(relu(net.given()), net.given()));
  const auto* const chain = net.graph.nodes()[0].op->as<Pointwise>();
  REQUIRE(chain != nullptr);
  CHECK_FALSE(chain->is(PointwiseFunction::relu));
  CHECK_FALSE(chain->is(PointwiseFunction::add));
}

TEST_CASE("fuse_pointwise: epilogues of products come first") {
  Network net;
  const Tensor y = mul(relu(conv2d(net.given(), "conv", {.out_channels = 4})), net.given({4, 1, 1}));
  CHECK(net.fused(y) == Titles{"conv2d", "mul"});
}

/// Forward and backward through chains over channels, rows and residuals.
Graph network_of_chains() {
  const model::Model net{.name = "chains",
                         .forward =
                             [](Tensor x) {
                               Graph& graph = x.graph();
                               const Tensor gain(graph, graph.add_parameter("gain", {3, 1, 1}, {}));
                               const Tensor row(graph, graph.add_parameter("row", {7}, {}));
                               const Tensor same(graph, graph.add_parameter("same", full, {}));
                               const Tensor h = relu(add(mul(x, gain), row));
                               const Tensor y = add(relu(mul(mul(h, same), row)), mul(h, gain));
                               return linear(reshape(y, {2, 105}), "head", 4);
                             },
                         .loss = model::LossKind::mean_squared_error};
  Graph graph = build_graph(net, {.shape = {3, 5, 7}, .num_classes = 0, .target_shape = Shape{4}}, 2, true);
  differentiate(graph);
  return graph;
}

/// Runs the nodes of a graph one by one, all values row-major and in memory of their own.
class Interpreter {
 public:
  explicit Interpreter(const Graph& graph) : graph_(graph), device_(kernels::make_cpu_device(1)) {
    for (std::size_t i = 0; i < graph.value_count(); ++i) give(static_cast<ValueId>(i));
    const auto stream = device_->make_stream();
    for (const Node& node : graph.nodes()) run(node, *stream);
  }

  std::span<const std::byte> bytes(ValueId id) const {
    const kernels::Memory& memory = *memories_.at(id);
    return {static_cast<const std::byte*>(memory.data()), memory.bytes()};
  }

 private:
  void give(ValueId id) {
    const model::ValueType& type = graph_.value(id).type;
    const auto count = static_cast<std::size_t>(type.shape.elements());
    const auto& memory = memories_[id] = device_->allocate(count * size_of(type.dtype));
    if (graph_.value(id).role == Role::step_state) {
      *static_cast<kernels::StepState*>(memory->data()) = {.loss_scale = 0.5F, .valid_samples = 2};
    } else if (type.dtype == DType::f32 && !graph_.producer(id)) {
      Philox(1, static_cast<std::uint64_t>(id)).normals(0, {static_cast<float*>(memory->data()), count});
    }
  }

  void run(const Node& node, kernels::Stream& stream) {
    kernels::KernelIo io = graph_.io(node);
    kernels::all_row_major(io);
    const kernels::KernelPtr kernel = node.op->kernel(*device_, io);
    if (kernel == nullptr) {
      memories_[node.outputs[0]] = memories_.at(node.inputs[0]);
      return;
    }
    std::vector<void*> addresses;
    for (const auto* ids : {&node.inputs, &node.outputs}) {
      for (const ValueId id : *ids) addresses.push_back(memories_.at(id)->data());
    }
    const auto workspace = device_->allocate(kernel->workspace_bytes());
    kernel->bind(addresses, workspace->data())->launch(stream);
  }

  const Graph& graph_;
  std::unique_ptr<kernels::Device> device_;
  std::map<ValueId, std::shared_ptr<kernels::Memory>> memories_;
};

TEST_CASE("fuse_pointwise: joined chains give the bits of their parts, forward and backward") {
  const Graph apart = network_of_chains();
  Graph joined = apart;
  fuse_pointwise(joined);
  CAPTURE(titles(apart), titles(joined));
  CHECK(joined.nodes().size() + 8 < apart.nodes().size());
  const Interpreter wanted(apart);
  const Interpreter got(joined);
  for (const Node& node : joined.nodes()) {
    for (const ValueId id : node.outputs) {
      INFO(node.op->name());
      CHECK(std::ranges::equal(got.bytes(id), wanted.bytes(id)));
      if (joined.value(id).role != Role::gradient) continue;
      CHECK(std::ranges::any_of(got.bytes(id), [](std::byte byte) { return byte != std::byte{0}; }));
    }
  }
}

}  // namespace
}  // namespace lockstep::runtime
