#include <algorithm>

#include "runtime/plan/schedule.h"
#include "tests/support/catch.h"
#include "tests/unit/runtime/small_plans.h"

namespace lockstep::runtime {
namespace {

using Kind = Step::Kind;
using testing::classifier;
using testing::plan_of;

std::ptrdiff_t place(const Plan& plan, Kind kind, std::size_t index) {
  const auto found = std::ranges::find_if(
      plan.steps, [&](const Step& step) { return step.kind == kind && step.index == index; });
  REQUIRE(found != plan.steps.end());
  return found - plan.steps.begin();
}

std::ptrdiff_t count(const Plan& plan, Kind kind) {
  return std::ranges::count(plan.steps, kind, &Step::kind);
}

model::Tensor wide_net(model::Tensor x) {
  return linear(relu(linear(flatten(x), "fc1", 4096)), "fc2", 10);
}

TEST_CASE(
    "schedule: ranks that share memory update a shard each of a large bucket, and gather its parameters") {
  const auto device = kernels::make_cpu_device(1);
  const auto plan_for = [&](PlanRequest request) {
    request.buckets.first_bytes = request.buckets.bytes = 1;
    request.schedule.shards_updates = true;
    return plan_of(classifier(wide_net), *device, request);
  };
  const Plan plan = plan_for({.buckets = {.ranks = 3}});
  const auto& buckets = plan.arena.buckets;
  REQUIRE(std::ranges::count(buckets, true, &Bucket::shards_update) == 1);
  CHECK(count(plan, Kind::gather_parameters) == 1);
  for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket) {
    const bool is_sharded = buckets[bucket].count >= 4096 * 192;
    CHECK(buckets[bucket].shards_update == is_sharded);
    const Launch& update = plan.launches.updates[bucket];
    const std::int64_t count = buckets[bucket].count / (is_sharded ? 3 : 1);
    CHECK(update.io.outputs.front().shape == Shape{count});
    CHECK(update.operands.front().of_each_rank == (is_sharded ? 4 * count : 0));
    if (!is_sharded) continue;
    CHECK(place(plan, Kind::gather_parameters, bucket) == place(plan, Kind::update, bucket) + 1);
  }
  CHECK(updated_elements(plan.arena) < plan.arena.elements / 2);
  const auto gathers = [&](const PlanRequest& request) {
    return count(plan_for(request), Kind::gather_parameters) > 0;
  };
  CHECK(gathers({.buckets = {.ranks = 2}}));
  CHECK_FALSE(gathers({}));
  CHECK_FALSE(gathers({.buckets = {.ranks = 2}, .clip_grad_norm = 1}));
  CHECK_FALSE(gathers({.buckets = {.ranks = 2}, .schedule = {.exchange = false}}));
}

}  // namespace
}  // namespace lockstep::runtime
