// Linear maps behind flattened pictures: which read the pictures as they lie, and that all plans of a run see
// their weights alike.
#include <algorithm>

#include "tests/support/catch.h"
#include "tests/unit/runtime/one_replica.h"

namespace lockstep::runtime {
namespace {

using model::Tensor;
using testing::classifier;
using testing::OneReplica;
using testing::ops_of;
using testing::plan_of;
using testing::relative_distance;

constexpr PlanKey training{.batch = 8};
constexpr PlanKey evaluation{.mode = Mode::evaluate, .batch = 8};

Tensor pictures(Tensor x) {
  return max_pool2d(relu(conv2d(x, "conv", {.out_channels = 16, .kernel = 3, .padding = 1})));
}

Tensor plain_head(Tensor x) {
  return linear(flatten(pictures(x)), "fc", 10);
}

/// As AlexNet's and VGG's: in evaluation nothing is between flatten and the linear map.
Tensor head_with_dropout(Tensor x) {
  return linear(dropout(flatten(pictures(x)), 0.5), "fc", 10);
}

Tensor two_heads(Tensor x) {
  const Tensor flat = flatten(pictures(x));
  const Tensor a = linear(flat, "a", 4);
  return model::concat({a, linear(flat, "b", 6)}, 1);
}

Tensor two_heads_apart(Tensor x) {
  const Tensor h = pictures(x);
  const Tensor a = linear(flatten(h), "a", 4);
  return model::concat({a, linear(flatten(h), "b", 6)}, 1);
}

std::ptrdiff_t reshapes_in(const Plan& plan) {
  return std::ranges::count(ops_of(plan.graph), "reshape");
}

void check_that_both_see_weights_alike(const OneReplica& replica) {
  CHECK(parameter_layouts(replica.plan(0).graph) == parameter_layouts(replica.plan(1).graph));
  for (const std::size_t at : {0U, 1U}) {
    const model::Graph& graph = replica.plan(at).graph;
    for (const model::Parameter& parameter : graph.parameters()) {
      const model::Value& value = graph.value(parameter.value);
      INFO(value.name);
      CHECK(value.layout->padded.rank() == value.type.shape.rank());
    }
  }
}

TEST_CASE("flatten: what training reads behind a dropout, evaluation reads as it lies") {
  const DType compute = GENERATE(DType::f32, DType::bf16);
  const PlanConstraints constraints{.compute_dtype = compute};
  OneReplica dropped(classifier(head_with_dropout), {training, evaluation}, constraints);
  check_that_both_see_weights_alike(dropped);
  OneReplica plain(classifier(plain_head), {training, evaluation}, constraints);
  check_that_both_see_weights_alike(plain);
  CHECK(reshapes_in(dropped.plan(1)) == 1);
  CHECK(reshapes_in(plain.plan(1)) == 0);
  const float before = dropped.run(evaluation, 0, 8).loss;
  CHECK(before == Approx(plain.run(evaluation, 0, 8).loss).epsilon(compute == DType::f32 ? 1e-5 : 1e-2));
  dropped.run(training, 0, 8);
  CHECK(dropped.run(evaluation, 0, 8).loss != before);
}

TEST_CASE("flatten: a plan that lays the weights out itself sees them as those of pictures") {
  const auto device = kernels::make_cpu_device(1);
  const Plan plan = plan_of(classifier(head_with_dropout), *device, {.key = {.mode = Mode::evaluate}});
  CHECK(reshapes_in(plan) == 0);
}

TEST_CASE("flatten: two linear maps that read one tensor learn as two that read their own") {
  OneReplica one(classifier(two_heads), {training, evaluation});
  OneReplica two(classifier(two_heads_apart), {training, evaluation});
  for (const OneReplica* replica : {&one, &two}) check_that_both_see_weights_alike(*replica);
  CHECK(reshapes_in(two.plan(0)) == 0);
  for (int step = 0; step < 2; ++step) {
    CHECK(one.run(training, 0, 8).loss == Approx(two.run(training, 0, 8).loss).epsilon(1e-5));
    CHECK(relative_distance(one.replica().gradients(), two.replica().gradients()) < 1e-5);
    CHECK(one.run(evaluation, 0, 8).loss == Approx(two.run(evaluation, 0, 8).loss).epsilon(1e-5));
  }
}

TEST_CASE("flatten: biases learn alike where the weights are frozen") {
  const DType compute = GENERATE(DType::f32, DType::bf16);
  OneReplica all(classifier(plain_head), {training}, {.compute_dtype = compute});
  OneReplica biases(classifier(plain_head), {training}, {.compute_dtype = compute, .freeze = {"*.weight"}});
  CHECK(biases.run(training, 0, 8).loss == all.run(training, 0, 8).loss);
  const auto expected = all.replica().gradients(), found = biases.replica().gradients();
  REQUIRE(found.size() == 2);
  for (const NamedTensor& bias : found)
    CHECK(std::ranges::find(expected, bias.name, &NamedTensor::name)->values == bias.values);
}

}  // namespace
}  // namespace lockstep::runtime
