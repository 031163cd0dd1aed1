#include "runtime/plan/precision.h"
#include "kernels/base/error.h"
#include "kernels/conv2d.h"
#include "kernels/linear.h"
#include "model/model.h"
#include "runtime/plan/differentiate.h"
#include "runtime/plan/fuse.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/print.h"
#include "runtime/plan/signature.h"
#include "runtime/plan/tensor_cores.h"
#include "tests/support/catch.h"
#include "tests/unit/runtime/classifier.h"

namespace lockstep::runtime {
namespace {

using model::Graph;
using model::Tensor;
using testing::classifier;
using testing::images;

Tensor small_net(Tensor x) {
  return linear(relu(linear(flatten(x), "fc1", 6)), "fc2", 10);
}

std::vector<std::string> attributes_of(const Graph& graph) {
  std::vector<std::string> all;
  for (const model::Node& node : graph.nodes()) all.push_back(node.op->name() + " " + node.op->attributes());
  return all;
}

template <class Op>
void check_precision(const Graph& graph, kernels::MatmulPrecision wanted, std::size_t count) {
  std::size_t found = 0;
  for (const model::Node& node : graph.nodes()) {
    const auto* op = node.op->as<Op>();
    if (op == nullptr) continue;
    ++found;
    CHECK(op->precision == wanted);
  }
  CHECK(found == count);
}

TEST_CASE("precision: every product gets it, forward and backward, and keeps all else") {
  Graph graph = build_graph(
      classifier([](Tensor x) {
        x = relu(conv2d(x, "conv1", {.out_channels = 4, .kernel = 3, .padding = 1}));
        return linear(relu(linear(flatten(conv2d(x, "conv2", {.out_channels = 2, .kernel = 3})), "fc1", 6)),
                      "fc2", 10);
      }),
      images, 4, true);
  differentiate(graph);
  fuse(graph);
  const std::vector<std::string> before = attributes_of(graph);
  set_matmul_precision(graph, kernels::MatmulPrecision::high);
  CHECK(attributes_of(graph) == before);
  check_precision<kernels::Conv2d>(graph, kernels::MatmulPrecision::high, 2);
  check_precision<kernels::Conv2dBackwardData>(graph, kernels::MatmulPrecision::high, 1);
  check_precision<kernels::Conv2dBackwardWeights>(graph, kernels::MatmulPrecision::high, 2);
  check_precision<kernels::Linear>(graph, kernels::MatmulPrecision::high, 2);
  check_precision<kernels::LinearBackwardData>(graph, kernels::MatmulPrecision::high, 2);
  check_precision<kernels::LinearBackwardWeights>(graph, kernels::MatmulPrecision::high, 2);
}

TEST_CASE("precision: a plan follows the run's, in training and evaluation, and says so") {
  const auto device = kernels::make_cpu_device(1);
  const auto mode = GENERATE(Mode::train, Mode::evaluate);
  const Plan plan = make_plan(classifier(small_net), images, {.key = {.mode = mode, .batch = 4}}, *device,
                              {.matmul_precision = kernels::MatmulPrecision::medium});
  check_precision<kernels::Linear>(plan.graph, kernels::MatmulPrecision::medium, 2);
  CHECK_THAT(to_text(plan, {}), tests::contains("products at medium precision"));
  CHECK(plan.warnings.empty());  // there are no tensor cores
}

TEST_CASE("precision: ranks that differ in it are told so") {
  const auto device = kernels::make_cpu_device(1);
  const auto signature = [&](kernels::MatmulPrecision precision) {
    const Plan plan = make_plan(classifier(small_net), images, {.key = {.batch = 4}}, *device,
                                {.matmul_precision = precision});
    return exchange_signature(plan, *device, {});
  };
  CHECK_THAT(signature(kernels::MatmulPrecision::high), tests::contains("matmul precision high\n"));
  CHECK(signature(kernels::MatmulPrecision::high) != signature(kernels::MatmulPrecision::highest));
}

TEST_CASE(
    "tensor cores: dimensions that they cannot read in whole words are named with the next better one") {
  const Graph graph =
      build_graph(classifier([](Tensor x) {
                    x = conv2d(x, "conv1", {.out_channels = 8, .kernel = 3, .padding = 1});
                    x = conv2d(x, "conv2", {.out_channels = 12, .kernel = 3, .padding = 1, .groups = 4});
                    return linear(linear(flatten(x), "fc1", 16), "", 10);
                  }),
                  images, 4, false);
  CHECK(tensor_core_misses(graph) ==
        std::vector<std::string>{"conv1: 3 input channels (4 is faster)",
                                 "conv2: 2 input channels of a group (4 is faster)",
                                 "conv2: 3 output channels of a group (4 is faster)",
                                 "linear: 10 output features (12 is faster)"});
}

}  // namespace
}  // namespace lockstep::runtime
