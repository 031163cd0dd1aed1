#include "runtime/plan/print.h"

#include "tests/support/catch.h"
#include "tests/unit/runtime/small_plans.h"

namespace lockstep::runtime {
namespace {

using Kind = Step::Kind;
using model::Graph;
using model::Tensor;
using testing::classifier;
using testing::images;
using testing::plan_with_many_buckets;

TEST_CASE("print: every step of a plan is a line, with its stream") {
  const auto device = kernels::make_cpu_device(1);
  const Plan plan = plan_with_many_buckets(*device, {}, 2);
  const std::string text = to_text(plan, {});
  for (const Step& step : plan.steps) {
    if (step.kind != Kind::launch) CHECK_THAT(text, tests::contains(label_of(plan, step)));
  }
  CHECK(text.find("row-major") == std::string::npos);  // only other layouts are printed
  for (const char* line :
       {"compute    begin step", "exchange q all-reduce of bucket 0 (fc2.weight), behind compute",
        "compute    join the exchange queue", "compute    clip gradients to norm 2",
        "compute    update of bucket 0 (fc2.weight)", "compute    end step"}) {
    CHECK_THAT(text, tests::contains(line));
  }
}

TEST_CASE("print: where updates are left to the next step its buckets say what waits for them") {
  const auto device = kernels::make_cpu_device(1);
  const std::string text = to_text(plan_with_many_buckets(*device, {.defers = true}), {});
  CHECK_THAT(text, tests::contains("some are held back to be exchanged in the next step's forward"));
  CHECK_THAT(text, tests::contains("from fc2.weight, updated before the next fc2 linear\n"));
  CHECK_THAT(text, tests::contains("from conv.weight, updated before the next conv conv2d\n"));
  CHECK_THAT(text, tests::contains("update of bucket 0 (fc2.weight), of the step before"));
  CHECK_THAT(to_text(plan_with_many_buckets(*device, {}), {}), !tests::contains("the next"));
}

TEST_CASE("print: a step of several micro-batches is shown by its last one") {
  const auto device = kernels::make_cpu_device(1);
  const auto planned = [&](PlanRequest request) {
    return to_text(testing::plan_of(classifier(testing::small_net), *device, request), {});
  };
  const std::string text = planned({.key = {.role = MicroBatchRole::last}, .micro_batches = 3});
  CHECK_THAT(text, tests::contains("batch 3 x 4 per rank"));
  CHECK_THAT(text, tests::contains("the step's last micro-batch"));
  CHECK_THAT(planned({}), tests::contains("batch 4 per rank"));
  CHECK_THAT(planned({}), !tests::contains("micro-batch"));
}

TEST_CASE(
    "tensor cores: dimensions that they cannot read in whole words are named with the next better one") {
  Graph graph =
      build_graph(classifier([](Tensor x) {
                    x = conv2d(x, "conv1", {.out_channels = 8, .kernel = 3, .padding = 1});
                    x = conv2d(x, "conv2", {.out_channels = 12, .kernel = 3, .padding = 1, .groups = 4});
                    return linear(linear(flatten(x), "fc1", 16), "", 10);
                  }),
                  images, 4, false);
  CHECK(tensor_core_misses(graph).empty());  // nothing may be rounded for them
  set_precision(graph, kernels::MatmulPrecision::high, kernels::MatmulPrecision::high);
  CHECK(tensor_core_misses(graph) ==
        std::vector<std::string>{"conv1: 3 input channels (4 is faster)",
                                 "conv2: 2 input channels of a group (4 is faster)",
                                 "conv2: 3 output channels of a group (4 is faster)",
                                 "linear: 10 output features (12 is faster)"});
}

}  // namespace
}  // namespace lockstep::runtime
