#include <algorithm>

#include "kernels/base/error.h"
#include "kernels/base/half.h"
#include "kernels/pointwise.h"
#include "runtime/run/run_plans.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/unit/runtime/one_replica.h"

namespace lockstep::runtime {
namespace {

using Kind = Step::Kind;
using testing::bucket_for_each;
using testing::classifier;
using testing::OneReplica;
using testing::plan_of;
using testing::relative_distance;
using testing::small_net;

constexpr PlanKey whole{.batch = 10};
constexpr PlanKey first{.role = MicroBatchRole::first, .batch = 4};
constexpr PlanKey middle{.role = MicroBatchRole::middle, .batch = 4};
constexpr PlanKey last{.role = MicroBatchRole::last, .batch = 2};

kernels::ControlBlock step_of_three(OneReplica& replica) {
  replica.run(first, 0, 10);
  replica.run(middle, 4, 10);
  return replica.run(last, 8, 10);
}

TEST_CASE("samples that are too few for a step are refused with what makes it smaller") {
  Options options;
  options.batch_size = 7;
  options.drop_last = true;
  const auto refusal = [&] {
    return tests::message_of<UsageError>([&] { batching_of(options, {.size = 3}, 100); });
  };
  options.accumulate_steps = 30;
  CHECK(refusal() ==
        "100 samples do not give each of 3 ranks the 210 of a step: take a smaller --batch-size or "
        "fewer than 30 --accumulate-steps");
  options.accumulate_steps = 1;
  options.batch_size = 50;
  CHECK(refusal() == "100 samples do not give each of 3 ranks the 50 of a step: take a smaller --batch-size");
}

TEST_CASE("micro-batches of a step add up to one large batch") {
  const model::OptimizerOptions adam{};
  OneReplica large(classifier(small_net), {whole}, {}, adam);
  OneReplica parts(classifier(small_net), {first, middle, last}, {}, adam);
  for (int step = 0; step < 3; ++step) {
    const kernels::ControlBlock of_large = large.run(whole, 0, 10);
    const kernels::ControlBlock of_parts = step_of_three(parts);
    CHECK(of_parts.targets == 10);
    CHECK(of_parts.correct == of_large.correct);
    CHECK(of_parts.next_targets == 8);  // what the last one was told
    // The same terms in another order: fp32 rounds each of some hundred additions by 6e-8 of a sum that is
    // larger than its end; 3 steps of Adam amplify it.
    CHECK(of_parts.loss == Approx(of_large.loss).epsilon(1e-5));
    CHECK(relative_distance(parts.replica().gradients(), large.replica().gradients()) < 1e-5);
    CHECK(parts.replica().applied_updates() == step + 1);
  }
  CHECK(relative_distance(parts.replica().parameters(), large.replica().parameters()) < 1e-5);
}

TEST_CASE("the first micro-batch overwrites the gradients of the step before") {
  const model::OptimizerOptions frozen{.kind = model::OptimizerKind::sgd, .learning_rate = 0};
  OneReplica replica(classifier(small_net), {first, middle, last}, {}, frozen);
  step_of_three(replica);
  const std::string once = sha256_of(replica.replica().gradients());
  step_of_three(replica);
  CHECK(sha256_of(replica.replica().gradients()) == once);
}

const PlanConstraints exchanged_as_bf16{.gradient_dtype = DType::bf16};

TEST_CASE("gradients that are exchanged as bf16 add up in fp32 and are rounded once") {
  const model::OptimizerOptions sgd{.kind = model::OptimizerKind::sgd, .learning_rate = 0.1};
  OneReplica exact(classifier(small_net), {first, middle, last}, {}, sgd);
  OneReplica rounded(classifier(small_net), {first, middle, last}, exchanged_as_bf16, sgd);
  OneReplica large(classifier(small_net), {whole}, exchanged_as_bf16, sgd);
  step_of_three(exact);
  step_of_three(rounded);
  large.run(whole, 0, 10);
  const std::vector<NamedTensor> wanted = exact.replica().gradients();
  const std::vector<NamedTensor> got = rounded.replica().gradients();
  REQUIRE(got.size() == wanted.size());
  for (std::size_t tensor = 0; tensor < got.size(); ++tensor) {
    INFO(wanted[tensor].name);
    std::vector<float> once;
    for (const float value : wanted[tensor].values) {
      BFloat16 half;
      narrow(value, half);
      once.push_back(widen(half));
    }
    CHECK(got[tensor].values == once);
  }
  // The large batch's sums differ in the last bits of fp32, which seldom decides how they are rounded.
  CHECK(relative_distance(got, large.replica().gradients()) < 1e-4);
}

/// The gradient of its weight is the same for a and b.
model::Tensor net_of_a_sum(model::Tensor x) {
  const model::Tensor a = parameter(x.graph(), "a", {10, 192}, {.bound = 0.1F});
  const model::Tensor b = parameter(x.graph(), "b", {10, 192}, {.bound = 0.1F});
  return shared_linear(flatten(x), add(a, b));
}

const NamedTensor& named(const std::vector<NamedTensor>& tensors, const std::string& name) {
  const auto found = std::ranges::find(tensors, name, &NamedTensor::name);
  REQUIRE(found != tensors.end());
  return *found;
}

TEST_CASE("two parameters with one gradient: each adds up its own") {
  const PlanConstraints constraints =
      GENERATE(PlanConstraints{}, PlanConstraints{.gradient_dtype = DType::bf16},
               PlanConstraints{.compute_dtype = DType::bf16, .gradient_dtype = DType::bf16});
  OneReplica large(classifier(net_of_a_sum), {whole}, constraints);
  OneReplica parts(classifier(net_of_a_sum), {first, middle, last}, constraints);
  large.run(whole, 0, 10);
  step_of_three(parts);
  const std::vector<NamedTensor> wanted = large.replica().gradients();
  const std::vector<NamedTensor> got = parts.replica().gradients();
  CHECK(named(wanted, "a").values == named(wanted, "b").values);
  CHECK(named(got, "a").values == named(got, "b").values);
  CHECK(relative_distance(got, wanted) < (constraints.compute_dtype == DType::f32 ? 1e-3 : 2e-2));
}

std::size_t count(const Plan& plan, Kind kind) {
  return static_cast<std::size_t>(std::ranges::count(plan.steps, kind, &Step::kind));
}

/// Nodes that read what they write.
std::size_t sums_in(const Plan& plan) {
  return static_cast<std::size_t>(std::ranges::count_if(plan.graph.nodes(), [](const model::Node& node) {
    return std::ranges::find(node.inputs, node.outputs.front()) != node.inputs.end();
  }));
}

TEST_CASE("only the last micro-batch exchanges and updates; all but the first add") {
  const auto device = kernels::make_cpu_device(1);
  const auto role = GENERATE(MicroBatchRole::first, MicroBatchRole::middle, MicroBatchRole::last);
  const bool stream_ordered = GENERATE(false, true);
  const Plan plan = plan_of(classifier(small_net), *device,
                            {.key = {.role = role},
                             .buckets = bucket_for_each,
                             .schedule = {.stream_ordered = stream_ordered},
                             .clip_grad_norm = 1});
  const std::size_t buckets = plan.arena.buckets.size();
  const bool is_last = role == MicroBatchRole::last;
  CHECK(count(plan, Kind::update) == (is_last ? buckets : 0));
  CHECK(count(plan, Kind::all_reduce) + count(plan, Kind::all_reduce_inline) == (is_last ? buckets : 0));
  CHECK(count(plan, Kind::clip) == (is_last ? 1 : 0));
  CHECK(count(plan, Kind::begin_step) == 1);
  CHECK(sums_in(plan) == (role == MicroBatchRole::first ? 0 : plan.graph.parameters().size()));
}

TEST_CASE("exchanged as bf16: sums have memory of their own, and only the last micro-batch rounds") {
  const auto device = kernels::make_cpu_device(1);
  const auto planned = [&](MicroBatchRole role) {
    return make_plan(classifier(small_net), testing::images,
                     {.key = {.role = role}, .buckets = bucket_for_each}, *device, exchanged_as_bf16);
  };
  CHECK(planned(MicroBatchRole::only).gradient_sum_bytes() == 0);
  const Plan laid_out = planned(MicroBatchRole::first);
  for (const auto role : {MicroBatchRole::first, MicroBatchRole::middle, MicroBatchRole::last}) {
    const Plan plan = planned(role);
    const std::size_t parameters = plan.graph.parameters().size();
    const auto rounds = [](const model::Node& node) { return node.op->name() == "cast"; };
    CHECK(std::ranges::count_if(plan.graph.nodes(), rounds) ==
          static_cast<std::ptrdiff_t>(role == MicroBatchRole::last ? parameters : 0));
    CHECK(sums_in(plan) == (role == MicroBatchRole::first ? 0 : parameters));
    CHECK(plan.gradient_sum_bytes() == plan.arena.bytes());
    CHECK(plan.arena.gradient_dtype == DType::bf16);
    REQUIRE(plan.arena.slices.size() == laid_out.arena.slices.size());
    for (std::size_t i = 0; i < plan.arena.slices.size(); ++i) {
      CHECK(plan.arena.slices[i].name == laid_out.arena.slices[i].name);
      CHECK(plan.arena.slices[i].first == laid_out.arena.slices[i].first);
    }
  }
}

TEST_CASE("a bucket is exchanged behind the sum of its last gradient, while backward goes on") {
  const auto device = kernels::make_cpu_device(1);
  const Plan plan =
      plan_of(classifier(small_net), *device,
              {.key = {.role = MicroBatchRole::last}, .buckets = bucket_for_each, .schedule = {}});
  const auto ready = bucket_ready_nodes(plan.graph, plan.arena);
  for (const std::size_t node : ready) CHECK(plan.graph.nodes()[node].op->name() == "add");
  CHECK(ready.front() + 2 < plan.graph.nodes().size());
  CHECK(count(plan, Kind::all_reduce) > 0);
}

TEST_CASE("all roles share arenas and layouts, and choose as one large batch would") {
  const auto device = kernels::make_cpu_device(1);
  const auto planned = [&](MicroBatchRole role) {
    return plan_of(classifier(small_net), *device, {.key = {.role = role}, .buckets = bucket_for_each});
  };
  const Plan only = planned(MicroBatchRole::only);
  for (const auto role : {MicroBatchRole::first, MicroBatchRole::middle, MicroBatchRole::last}) {
    const Plan plan = planned(role);
    CHECK(parameter_layouts(plan.graph) == parameter_layouts(only.graph));
    REQUIRE(plan.arena.slices.size() == only.arena.slices.size());
    for (std::size_t i = 0; i < plan.arena.slices.size(); ++i) {
      CHECK(plan.arena.slices[i].name == only.arena.slices[i].name);
      CHECK(plan.arena.slices[i].first == only.arena.slices[i].first);
    }
  }
}

comm::World world_of(int size) {
  comm::World world;
  world.size = size;
  return world;
}

std::vector<MicroBatch> epoch_of(const Batching& batching) {
  std::vector<MicroBatch> epoch;
  for (std::int64_t done = 0; done < batching.epoch_samples; done += epoch.back().samples) {
    epoch.push_back(batching.micro_batch(std::ssize(epoch), batching.in_epoch(0)));
  }
  return epoch;
}

TEST_CASE("an epoch in micro-batches: the rest is a smaller step, and each sample counts once") {
  using enum MicroBatchRole;
  Options options;
  options.batch_size = 4;
  options.accumulate_steps = 3;
  options.epochs = 2;
  struct Case {
    std::int64_t samples;
    std::int64_t steps;  ///< of an epoch
    std::vector<MicroBatchRole> rest;
    std::int64_t last_samples;
  };
  for (const Case& test : {Case{24, 2, {first, middle, last}, 4}, Case{23, 2, {first, middle, last}, 3},
                           Case{21, 2, {first, middle, last}, 1}, Case{17, 2, {first, last}, 1},
                           Case{15, 2, {only}, 3}, Case{3, 1, {only}, 3}}) {
    CAPTURE(test.samples);
    const Batching batching = batching_of(options, world_of(2), 2 * test.samples);
    CHECK(batching.total_steps == 2 * test.steps);
    const std::vector<MicroBatch> epoch = epoch_of(batching);
    CHECK(epoch.back().samples == test.last_samples);
    for (std::size_t i = 0; i < test.rest.size(); ++i) {
      const MicroBatch& micro_batch = epoch[epoch.size() - test.rest.size() + i];
      CHECK(micro_batch.role == test.rest[i]);
      CHECK(micro_batch.first_sample == static_cast<std::int64_t>(4 * i));
      CHECK(micro_batch.step_samples == test.samples - 12 * (test.steps - 1));
    }
  }
  options.drop_last = true;
  CHECK(batching_of(options, world_of(2), 2 * 23).epoch_samples == 12);
  CHECK(batching_of(options, world_of(2), 2 * 23).total_steps == 2);
  CHECK_THROWS_AS(batching_of(options, world_of(2), 2 * 11), UsageError);
}

TEST_CASE("a schedule in epochs is as long on any number of ranks with the same global batch") {
  constexpr std::int64_t global = 24;
  constexpr std::int64_t epochs = 3;
  Options options;
  options.global_batch = global;
  options.epochs = epochs;
  options.drop_last = GENERATE(false, true);
  options.accumulate_steps = GENERATE(1, 2);
  for (std::int64_t samples = global; samples < 4 * global; ++samples) {
    const std::int64_t steps = options.drop_last ? samples / global : (samples + global - 1) / global;
    for (const int ranks : {1, 2, 3, 4, 6, 12}) {
      CAPTURE(options.drop_last, options.accumulate_steps, samples, ranks);
      Batching batching = batching_of(options, world_of(ranks), samples);
      CHECK(batching.schedule_steps == epochs * steps);
      // Other ranks go on behind the first step of the second epoch, with what it has left.
      TrainingProgress progress{.step = steps + 1, .next_epoch = 1, .epoch_samples = global};
      if (progress.epoch_samples >= steps * global) continue;
      progress.deal_rest();
      resume_batching(batching, options, sampler_for(options, world_of(ranks), samples), progress);
      CHECK(batching.schedule_steps == epochs * steps);
      CHECK(batching.total_steps == epochs * steps);
    }
  }
}

}  // namespace
}  // namespace lockstep::runtime
