#include <algorithm>
#include <optional>

#include "kernels/attention.h"
#include "kernels/batch_norm.h"
#include "kernels/conv2d.h"
#include "kernels/linear.h"
#include "kernels/recurrent.h"
#include "model/model.h"
#include "runtime/plan/algorithms.h"
#include "runtime/plan/passes/passes.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/print.h"
#include "runtime/plan/signature.h"
#include "tests/support/catch.h"
#include "tests/unit/runtime/small_plans.h"

namespace lockstep::runtime {
namespace {

using model::Graph;
using model::Tensor;
using testing::classifier;
using testing::images;

Tensor two_linears(Tensor x) {
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

TEST_CASE("precision: every product gets it, forward and backward, and keeps its other attributes") {
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
  set_precision(graph, kernels::MatmulPrecision::high, kernels::MatmulPrecision::medium);
  CHECK(attributes_of(graph) == before);
  check_precision<kernels::Conv2d>(graph, kernels::MatmulPrecision::medium, 2);
  check_precision<kernels::Conv2dBackwardData>(graph, kernels::MatmulPrecision::medium, 1);
  check_precision<kernels::Conv2dBackwardWeights>(graph, kernels::MatmulPrecision::medium, 2);
  check_precision<kernels::Linear>(graph, kernels::MatmulPrecision::high, 2);
  check_precision<kernels::LinearBackwardData>(graph, kernels::MatmulPrecision::high, 2);
  check_precision<kernels::LinearBackwardWeights>(graph, kernels::MatmulPrecision::high, 2);
}

TEST_CASE("precision: convolutions on a CPU are IEEE unless the run says otherwise, whatever products are") {
  const auto device = kernels::make_cpu_device(1);
  const auto plan = [&](std::optional<kernels::MatmulPrecision> convolutions) {
    return make_plan(classifier([](Tensor x) {
                       return linear(flatten(conv2d(x, "conv1", {.out_channels = 2, .kernel = 3})), "fc1",
                                     10);
                     }),
                     images, {.key = {.batch = 4}}, *device,
                     {.matmul_precision = kernels::MatmulPrecision::medium, .conv_precision = convolutions});
  };
  check_precision<kernels::Conv2d>(plan({}).graph, kernels::MatmulPrecision::highest, 1);
  const Plan asked = plan(kernels::MatmulPrecision::medium);
  check_precision<kernels::Conv2d>(asked.graph, kernels::MatmulPrecision::medium, 1);
  CHECK_THAT(to_text(asked, {}), tests::contains("products at medium precision, convolutions at bf16\n"));
  CHECK_THAT(exchange_signature(asked, *device, {}), tests::contains("conv precision bf16\n"));
}

/// The type of what the first node of that op gives.
template <class Op>
DType given_by(const Graph& graph) {
  const auto at = std::ranges::find_if(graph.nodes(),
                                       [](const model::Node& node) { return node.op->as<Op>() != nullptr; });
  REQUIRE(at != graph.nodes().end());
  return graph.value(at->outputs[0]).type.dtype;
}

TEST_CASE("precision: to autocast attention and recurrent layers are products, batch norm takes what comes") {
  const bool behind_convolution = GENERATE(true, false);
  Graph graph =
      build_graph(classifier([&](Tensor x) {
                    if (behind_convolution) x = conv2d(x, "conv", {.out_channels = 3, .kernel = 1});
                    x = reshape(batch_norm2d(x, "norm"), {8, 4, 24});
                    x = lstm(x, "lstm", {.hidden = 8}).y;
                    x = rnn(x, "rnn", {.hidden = 8}).y;
                    x = steps_first(x);
                    return linear(last_step(steps_first(attention(x, x, x, {.heads = 2}))), "fc", 10);
                  }),
                  images, 4, true);
  autocast(graph, DType::bf16);
  CHECK(given_by<kernels::BatchNorm>(graph) == (behind_convolution ? DType::bf16 : DType::f32));
  CHECK(given_by<kernels::Lstm>(graph) == DType::bf16);
  CHECK(given_by<kernels::Rnn>(graph) == DType::bf16);
  CHECK(given_by<kernels::Attention>(graph) == DType::bf16);
}

TEST_CASE("precision: a plan has the run's, in training and evaluation, and prints it") {
  const auto device = kernels::make_cpu_device(1);
  const auto mode = GENERATE(Mode::train, Mode::evaluate);
  const Plan plan = make_plan(classifier(two_linears), images, {.key = {.mode = mode, .batch = 4}}, *device,
                              {.matmul_precision = kernels::MatmulPrecision::medium});
  check_precision<kernels::Linear>(plan.graph, kernels::MatmulPrecision::medium, 2);
  CHECK_THAT(to_text(plan, {}), tests::contains("products at medium precision"));
  CHECK(plan.warnings.empty());  // there are no tensor cores
}

}  // namespace
}  // namespace lockstep::runtime
