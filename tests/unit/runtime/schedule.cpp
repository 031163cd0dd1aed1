#include "runtime/plan/schedule.h"

#include <algorithm>

#include "tests/support/catch.h"
#include "tests/unit/runtime/small_plans.h"

namespace lockstep::runtime {
namespace {

using Kind = Step::Kind;
using model::Tensor;
using testing::bucket_for_each;
using testing::classifier;
using testing::plan_of;
using testing::plan_with_many_buckets;
using testing::small_net;

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

TEST_CASE(
    "schedule: gradients are clipped by a kernel where the schedule has that step, whatever the reason") {
  const auto device = kernels::make_cpu_device(1);
  const Plan plan = plan_with_many_buckets(*device, {});
  const auto clips = [&](const LaunchOptions& options) {
    return prepare_launches(plan.graph, plan.arena, plan.activations, prepare_nodes(plan.graph, *device),
                            options, *device)
               .clip.kernel != nullptr;
  };
  CHECK(clips({.clips = true}));
  CHECK_FALSE(clips({.clip_grad_norm = 2}));
}

TEST_CASE("schedule: every step waits for its dependencies") {
  const auto device = kernels::make_cpu_device(1);
  const double clip_grad_norm = GENERATE(0.0, 2.0);
  const ScheduleOptions schedule = GENERATE(from_range(std::begin(all_schedules), std::end(all_schedules)));
  CAPTURE(clip_grad_norm, schedule.overlap, schedule.stream_ordered);
  const Plan plan = plan_with_many_buckets(*device, schedule, clip_grad_norm);
  const auto ready = bucket_ready_nodes(plan.graph, plan.arena);
  const auto last_reader = bucket_last_readers(plan.graph, plan.arena);
  const std::size_t nodes = plan.graph.nodes().size();
  const std::size_t begin = find(plan, Kind::begin_step);
  CHECK(plan.steps.front().kind == Kind::begin_step);
  CHECK(plan.steps.back().kind == Kind::end_step);
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

TEST_CASE("schedule: the queue sums all buckets but the last, and is joined before the first use of a sum") {
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

Tensor normed_net(Tensor x) {
  x = relu(batch_norm2d(conv2d(x, "conv", {.out_channels = 4, .kernel = 3}), "bn1"));
  return linear(batch_norm2d(linear(flatten(x), "fc1", 6), "bn2"), "fc2", 10);
}

TEST_CASE("schedule: statistics are summed between who writes and who reads them, with no bucket under way") {
  const auto device = kernels::make_cpu_device(1);
  const ScheduleOptions schedule = GENERATE(from_range(std::begin(all_schedules), std::end(all_schedules)));
  const auto role = GENERATE(MicroBatchRole::only, MicroBatchRole::first);
  CAPTURE(schedule.overlap, schedule.stream_ordered, role);
  const Plan plan =
      make_plan(classifier(normed_net), testing::images,
                {.key = {.role = role, .batch = 4}, .buckets = bucket_for_each, .schedule = schedule},
                *device, {.sync_batch_norm = true});
  REQUIRE(plan.graph.statistics().size() == 4);
  const auto costs = std::ranges::count(plan.steps, true, &Step::for_exchange);
  CHECK(costs == (schedule.stream_ordered ? 4 + (role == MicroBatchRole::only ? 1 : 0) : 0));
  for (std::size_t index = 0; index < 4; ++index) {
    const model::ValueId id = plan.graph.statistics()[index];
    const std::size_t sum = find(plan, Kind::sum_statistics, index);
    CHECK(must_wait(plan, sum, find(plan, Kind::launch, plan.graph.producer(id).value())));
    for (std::size_t node = 0; node < plan.graph.nodes().size(); ++node) {
      if (std::ranges::count(plan.graph.nodes()[node].inputs, id) == 0) continue;
      CHECK(must_wait(plan, find(plan, Kind::launch, node), sum));
    }
    bool is_queue_empty = true;
    for (std::size_t at = 0; at < sum; ++at) {
      const Step& step = plan.steps[at];
      if (step.kind == Kind::all_reduce && !step.queued) CHECK(must_wait(plan, sum, at));
      is_queue_empty = step.kind == Kind::join || (is_queue_empty && !step.queued);
    }
    CHECK(is_queue_empty);
  }
}

TEST_CASE("schedule: who waits for an exchange has waited for the device, where that computes behind it") {
  const auto device = kernels::make_cpu_device(1);
  const bool overlap = GENERATE(true, false);
  CAPTURE(overlap);
  const Plan plan =
      make_plan(classifier(normed_net), testing::images, {.key = {.batch = 4}, .buckets = bucket_for_each},
                *device, {.sync_batch_norm = true});
  CHECK(count(plan, Kind::await_compute) == 0);
  const Schedule schedule =
      schedule_training(plan.graph, plan.arena, {.overlap = overlap, .computes_behind = true});
  bool has_waited = false;
  std::size_t exchanges = 0;
  for (const Step& step : schedule.steps) {
    if (step.queued) continue;
    if (step.kind == Kind::join || step.kind == Kind::all_reduce_inline ||
        step.kind == Kind::sum_statistics) {
      ++exchanges;
      CHECK(has_waited);
    }
    if (step.kind == Kind::launch) has_waited = false;
    if (step.kind == Kind::await_compute) has_waited = true;
  }
  CHECK(exchanges > 4);
}

TEST_CASE("schedule: on streams updates overlap backward, unless gradients are clipped") {
  const auto device = kernels::make_cpu_device(1);
  const double clip_grad_norm = GENERATE(0.0, 2.0);
  const Plan plan = plan_with_many_buckets(*device, {.stream_ordered = true}, clip_grad_norm);
  const std::size_t last_node = find(plan, Kind::launch, plan.graph.nodes().size() - 1);
  CHECK(must_wait(plan, find(plan, Kind::update), last_node) == (clip_grad_norm > 0));
  CHECK_FALSE(must_wait(plan, find(plan, Kind::all_reduce), last_node));
  for (const Step& step : plan.steps) {
    if (step.stream != StreamName::exchange) continue;
    CHECK((step.kind == Kind::all_reduce || step.kind == Kind::wait || step.kind == Kind::record));
  }
  CHECK(std::ranges::none_of(plan.steps, &Step::queued));
}

TEST_CASE("schedule: a rank alone exchanges nothing and waits for nothing") {
  const auto device = kernels::make_cpu_device(1);
  const Plan plan = plan_with_many_buckets(*device, {.exchange = false});
  CHECK(std::ranges::all_of(plan.steps, [](const Step& s) { return s.stream == StreamName::compute; }));
  CHECK(plan.events.empty());
}

TEST_CASE("schedule: each update is followed by the average of its bucket's weights") {
  const auto device = kernels::make_cpu_device(1);
  const ScheduleOptions schedule = GENERATE(ScheduleOptions{.exchange = false}, ScheduleOptions{},
                                            ScheduleOptions{.stream_ordered = true});
  const Plan plan = plan_of(classifier(small_net), *device,
                            {.buckets = bucket_for_each, .schedule = schedule, .average_decay = 0.9});
  CHECK(count(plan, Kind::average) == plan.arena.buckets.size());
  for (std::size_t at = 0; at < plan.steps.size(); ++at) {
    if (plan.steps[at].kind != Kind::update) continue;
    CHECK(plan.steps[at + 1] ==
          Step{.kind = Kind::average, .stream = plan.steps[at].stream, .index = plan.steps[at].index});
  }
  CHECK(memory_need(std::span(&plan, 1)).averages == plan.arena.bytes());
}

/// The place of a deferred step.
std::size_t find_deferred(const Plan& plan, Kind kind, std::size_t index) {
  const auto found = std::ranges::find_if(plan.steps, [&](const Step& step) {
    return step.kind == kind && step.index == index && step.deferred;
  });
  REQUIRE(found != plan.steps.end());
  return static_cast<std::size_t>(found - plan.steps.begin());
}

TEST_CASE(
    "schedule: a deferred update comes before the first reader of its bucket, and all before backward") {
  const auto device = kernels::make_cpu_device(1);
  const Plan plan = plan_with_many_buckets(*device, {.defers = true});
  const auto first_reader = bucket_first_readers(plan.graph, plan.arena);
  const auto ready = bucket_ready_nodes(plan.graph, plan.arena);
  const std::size_t buckets = plan.arena.buckets.size();
  for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
    const std::size_t update = find_deferred(plan, Kind::update, bucket);
    CHECK(find_deferred(plan, Kind::await_bucket, bucket) < update);
    CHECK(update < find(plan, Kind::launch, first_reader[bucket]));
    const std::size_t sum = find(plan, Kind::all_reduce, bucket);
    CHECK(plan.steps[sum].queued);
    CHECK(plan.steps[sum].held.has_value() == (bucket + 1 < buckets));
    CHECK(sum > find(plan, Kind::launch, ready[bucket]));
    CHECK(sum < find(plan, Kind::hand_over_held));
    for (std::size_t node = 0; node < plan.graph.nodes().size(); ++node) {
      if (plan.graph.nodes()[node].phase == model::Phase::backward)
        CHECK(update < find(plan, Kind::launch, node));
    }
  }
  CHECK(count(plan, Kind::update) == buckets);
  CHECK(count(plan, Kind::join) == 0);
  CHECK(find(plan, Kind::keep_state) > find(plan, Kind::hand_over_held));
  CHECK(plan.launches.updates.front().operands[1].region == Region::kept_state);
}

TEST_CASE("schedule: nothing is deferred where updates wait for all exchanges") {
  const auto device = kernels::make_cpu_device(1);
  const Plan clipped = plan_with_many_buckets(*device, {.defers = true}, 2.0);
  const Plan serial = plan_with_many_buckets(*device, {.overlap = false, .defers = true});
  for (const Plan* plan : {&clipped, &serial}) {
    CHECK(std::ranges::none_of(plan->steps, &Step::deferred));
    CHECK(plan->launches.updates.front().operands[1].region == Region::step_state);
  }
}

TEST_CASE("schedule: the first micro-batch makes the deferred updates, the last leaves them") {
  const auto device = kernels::make_cpu_device(1);
  const auto plan_of_role = [&](MicroBatchRole role) {
    return make_plan(classifier(small_net), testing::images,
                     {.key = {.role = role, .batch = 4},
                      .micro_batches = 3,
                      .buckets = bucket_for_each,
                      .schedule = {.defers = true}},
                     *device, {});
  };
  const auto deferred = [](const Plan& plan) {
    return std::ranges::count(plan.steps, true, &Step::deferred);
  };
  const Plan first = plan_of_role(MicroBatchRole::first);
  CHECK(deferred(first) > 0);
  CHECK(count(first, Kind::keep_state) == 0);
  CHECK(deferred(plan_of_role(MicroBatchRole::middle)) == 0);
  const Plan last = plan_of_role(MicroBatchRole::last);
  CHECK(deferred(last) == 0);
  CHECK(count(last, Kind::keep_state) == 1);
}

}  // namespace
}  // namespace lockstep::runtime
