#include "runtime/plan/plan.h"

#include <algorithm>

#include "kernels/base/alignment.h"
#include "kernels/base/error.h"
#include "kernels/linear_rows.h"
#include "model/spec_op.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/unit/runtime/small_plans.h"

namespace lockstep::runtime {
namespace {

using testing::plan_with_many_buckets;

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
  const std::size_t apart = rounded_up(before, workspace_alignment) + (1 << 20);
  CHECK(after == (stream_ordered ? apart : std::max<std::size_t>(before, 1 << 20)));
  for (const Step& step : plan.steps) {
    const Launch* const launch = plan.launch_of(step);
    if (launch == nullptr || launch->kernel == nullptr) continue;
    if (launch->workspace.region != Region::workspace) continue;
    const auto first = static_cast<std::size_t>(launch->workspace.first);
    CHECK(first + launch->kernel->workspace_bytes() <= after);
    if (stream_ordered) CHECK((first >= before) == (step.kind == Step::Kind::update));
  }
}

TEST_CASE("workspace: that of each stream begins where a library wants scratch memory to") {
  const auto device = kernels::make_cpu_device(1);
  Plan plan = plan_with_many_buckets(*device, {.stream_ordered = true});
  constexpr std::size_t odd_lines = (1 << 20) + cache_line;
  for (Launch& node : plan.launches.nodes) node.kernel = std::make_unique<Greedy>(odd_lines);
  for (Launch& update : plan.launches.updates) update.kernel = std::make_unique<Greedy>(odd_lines);
  assign_workspace(plan.launches, plan.steps);
  std::size_t apart = 0;
  for (const Step& step : plan.steps) {
    const Launch* const launch = plan.launch_of(step);
    if (launch == nullptr || launch->kernel == nullptr) continue;
    if (launch->workspace.region != Region::workspace) continue;
    CHECK(launch->workspace.first % static_cast<std::int64_t>(workspace_alignment) == 0);
    if (launch->workspace.first > 0) ++apart;
  }
  CHECK(apart > 0);
}

TEST_CASE("workspace: a plan's covers that of every launch") {
  const auto device = kernels::make_cpu_device(1);
  const Plan plan = plan_with_many_buckets(*device, {}, 2);
  REQUIRE(plan.launches.clip.kernel != nullptr);
  CHECK(plan.launches.clip.kernel->workspace_bytes() > 0);
  CHECK(plan.workspace_bytes >= static_cast<std::size_t>(plan.launches.clip.workspace.first) +
                                    plan.launches.clip.kernel->workspace_bytes());
}

TEST_CASE("a model without parameters is planned to be evaluated, not to learn") {
  const auto device = kernels::make_cpu_device(1);
  const auto refusal = [&](Mode mode) {
    return tests::message_of<UsageError>([&] {
      make_plan(testing::classifier([](model::Tensor x) { return relu(x); }),
                {.shape = {10}, .num_classes = 10}, {.key = {.mode = mode, .batch = 4}}, *device, {});
    });
  };
  CHECK(refusal(Mode::evaluate).empty());
  CHECK(refusal(Mode::train) ==
        "the model has no parameters, so that nothing can learn: give it a layer with some");
}

TEST_CASE("operands that an op refuses in mixed precision alone are named with op and layer") {
  const auto device = kernels::make_cpu_device(1);
  const auto net = [](model::Tensor x) {
    x = linear(x, "in", 8);
    const model::Tensor weight = parameter(x.graph(), "rows.weight", {10, 8});
    const auto op = model::make_op(kernels::LinearRows{});
    return model::Tensor(x.graph(), x.graph().add_node(op, {x.id(), weight.id()}, "rows").front());
  };
  const auto refusal = [&](DType dtype) {
    return tests::message_of<UsageError>([&] {
      make_plan(testing::classifier(net), {.shape = {10}, .num_classes = 10},
                {.key = {.mode = Mode::evaluate, .batch = 4}}, *device, {.compute_dtype = dtype});
    });
  };
  CHECK(refusal(DType::f32).empty());
  CHECK_THAT(refusal(DType::bf16), tests::contains("layer 'rows' (linear_rows) under --amp: "));
}

}  // namespace
}  // namespace lockstep::runtime
