// Gradients of embeddings as rows: which, what is left of them, and when they are exchanged.
#include <algorithm>

#include "runtime/performance/scaling.h"
#include "runtime/plan/print.h"
#include "runtime/plan/signature.h"
#include "tests/support/catch.h"
#include "tests/unit/runtime/small_plans.h"

namespace lockstep::runtime {
namespace {

using Kind = Step::Kind;
using model::Tensor;
using testing::bucket_for_each;
using testing::classifier;
using testing::ops_of;

constexpr std::int64_t batch = 4;
constexpr std::int64_t length = 5;
constexpr std::int64_t vocab = 100;  // more than twice the 20 tokens of a rank for 2 ranks, not for 3
constexpr std::int64_t dim = 8;

model::InputSpec tokens_with_classes(std::int64_t classes) {
  return {.shape = {length},
          .num_classes = classes,
          .target_shape = {length},
          .dtype = DType::i64,
          .vocab_size = vocab};
}

Tensor untied(Tensor x) {
  return linear(relu(embedding(x, "wte", vocab, dim)), "fc", 10);
}

Tensor tied(Tensor x) {
  const Tensor weight = embedding_weight(x.graph(), "wte", vocab, dim, {.deviation = 1});
  return shared_linear(relu(linear(embedding(x, weight), "h", dim)), weight);
}

/// As a transformer's: source and target are looked up in the same table.
Tensor twice(Tensor x) {
  const Tensor weight = embedding_weight(x.graph(), "wte", vocab, dim, {.deviation = 1});
  return linear(add(relu(linear(embedding(x, weight), "h", dim)), embedding(x, weight)), "fc", 10);
}

struct Wanted {
  int ranks = 2;
  ScheduleOptions schedule{};
  EmbeddingExchange way = EmbeddingExchange::automatic;
  DType gradients = DType::f32;
  double clip_grad_norm = 0;
  std::int64_t micro_batches = 1;
};

Plan plan_for(Tensor (*net)(Tensor), std::int64_t classes, const Wanted& wanted) {
  const auto device = kernels::make_cpu_device(1);
  BucketLimits buckets = bucket_for_each;
  buckets.ranks = wanted.ranks;
  const auto role = wanted.micro_batches > 1 ? MicroBatchRole::last : MicroBatchRole::only;
  return make_plan(classifier(net), tokens_with_classes(classes),
                   {.key = {.role = role, .batch = batch},
                    .micro_batches = wanted.micro_batches,
                    .buckets = buckets,
                    .schedule = wanted.schedule,
                    .clip_grad_norm = wanted.clip_grad_norm},
                   *device, {.gradient_dtype = wanted.gradients, .embedding_exchange = wanted.way});
}

std::ptrdiff_t place(const Plan& plan, Kind kind, std::size_t index) {
  const auto found = std::ranges::find_if(
      plan.steps, [&](const Step& step) { return step.kind == kind && step.index == index; });
  return found == plan.steps.end() ? -1 : found - plan.steps.begin();
}

std::ptrdiff_t place_of_either(const Plan& plan, Kind kind, Kind other, std::size_t index) {
  return std::max(place(plan, kind, index), place(plan, other, index));
}

std::size_t count_ops(const Plan& plan, const std::string& name) {
  return static_cast<std::size_t>(std::ranges::count(ops_of(plan.graph), name));
}

const ScheduleOptions all_schedules[] = {
    {}, {.overlap = false}, {.stream_ordered = true}, {.overlap = false, .stream_ordered = true}};

TEST_CASE("an embedding whose batches have few tokens is exchanged as rows, in no bucket") {
  const ScheduleOptions schedule = GENERATE(from_range(std::begin(all_schedules), std::end(all_schedules)));
  const double clip = GENERATE(0.0, 1.0);
  const Plan plan = plan_for(untied, 10, {.schedule = schedule, .clip_grad_norm = clip});
  REQUIRE(plan.arena.rows.size() == 1);
  const RowsSlice& rows = plan.arena.rows.front();
  CHECK(rows.name == "wte.weight");
  CHECK(rows.overwrites);
  CHECK(rows.list.capacity == batch * length);
  CHECK(plan.arena.rows_bytes == 2 * rows.list_bytes());
  CHECK(count_ops(plan, "embedding_backward") == 0);
  CHECK(count_ops(plan, "embedding_rows") == 1);

  const std::size_t buckets = plan.arena.buckets.size();
  CHECK(exchanged_buckets(plan.arena) == buckets - 1);
  CHECK(plan.arena.buckets.back().only_rows);
  CHECK(plan.arena.buckets.back().first_parameter == "wte.weight");
  CHECK(rows.bucket == buckets - 1);
  CHECK(plan.arena.buckets[buckets - 2].with_control);
  CHECK_FALSE(plan.arena.buckets.back().with_control);
  CHECK(place_of_either(plan, Kind::all_reduce, Kind::all_reduce_inline, buckets - 1) == -1);

  const std::ptrdiff_t gathered = place_of_either(plan, Kind::gather_rows, Kind::gather_rows_inline, 0);
  const std::ptrdiff_t added = place(plan, Kind::add_rows, 0);
  CHECK(gathered > place(plan, Kind::launch, rows_ready_nodes(plan.graph, plan.arena).front()));
  CHECK(added > gathered);
  CHECK(place(plan, Kind::update, buckets - 1) > added);
  if (clip > 0) CHECK(place(plan, Kind::clip, 0) > added);
  CHECK_THAT(to_text(plan, memory_need(std::span(&plan, 1))),
             Catch::Contains("wte.weight  at most 20 of 100 rows"));
}

TEST_CASE("what a classifier leaves of a tied weight is exchanged when it is there, the rows at the end") {
  const ScheduleOptions schedule = GENERATE(from_range(std::begin(all_schedules), std::end(all_schedules)));
  const Plan plan = plan_for(tied, vocab, {.schedule = schedule});
  REQUIRE(plan.arena.rows.size() == 1);
  const RowsSlice& rows = plan.arena.rows.front();
  CHECK_FALSE(rows.overwrites);
  CHECK(rows.bucket == 0);
  CHECK(exchanged_buckets(plan.arena) == plan.arena.buckets.size());
  CHECK(plan.arena.buckets.front().first_parameter == "wte.weight");
  CHECK(count_ops(plan, "embedding_backward") == 0);
  CHECK(count_ops(plan, "add") == 0);
  const std::ptrdiff_t summed = place_of_either(plan, Kind::all_reduce, Kind::all_reduce_inline, 0);
  const std::ptrdiff_t gathered = place_of_either(plan, Kind::gather_rows, Kind::gather_rows_inline, 0);
  const std::ptrdiff_t written = place(plan, Kind::launch, rows_ready_nodes(plan.graph, plan.arena).front());
  if (schedule.overlap) CHECK(summed < written);
  CHECK(gathered > written);
  CHECK(gathered > place_of_either(plan, Kind::all_reduce, Kind::all_reduce_inline, 1));
  CHECK(place(plan, Kind::add_rows, 0) > std::max(summed, gathered));
  CHECK(place(plan, Kind::update, 0) > place(plan, Kind::add_rows, 0));
  for (std::size_t bucket = 0; bucket < plan.arena.buckets.size(); ++bucket)
    CHECK(std::ranges::count_if(plan.steps, [&](const Step& step) {
            return step.kind == Kind::update && step.index == bucket;
          }) == 1);
}

TEST_CASE("with the fused classifier a tied weight's gradient is on its way before backward") {
  constexpr std::int64_t large = 9000;
  const auto device = kernels::make_cpu_device(1);
  const auto net = classifier([](Tensor x) {
    const Tensor weight = embedding_weight(x.graph(), "wte", large, dim, {.deviation = 1});
    return shared_linear(relu(linear(embedding(x, weight), "h", dim)), weight);
  });
  model::InputSpec input = tokens_with_classes(large);
  input.vocab_size = large;
  BucketLimits buckets = bucket_for_each;
  buckets.ranks = 2;
  for (const DType compute : {DType::f32, DType::bf16}) {
    const Plan plan = make_plan(net, input, {.key = {.batch = batch}, .buckets = buckets}, *device,
                                {.compute_dtype = compute});
    CAPTURE(name_of(compute), ops_of(plan.graph));
    REQUIRE(plan.arena.rows.size() == 1);
    CHECK_FALSE(plan.arena.rows.front().overwrites);
    CHECK(count_ops(plan, "classifier_loss") == 1);
    const auto backward = std::ranges::find(plan.graph.nodes(), model::Phase::backward, &model::Node::phase);
    const auto first = static_cast<std::size_t>(backward - plan.graph.nodes().begin());
    CHECK(place(plan, Kind::all_reduce, 0) < place(plan, Kind::launch, first + 1));
  }
}

TEST_CASE("a table that is looked up twice has one list of rows, of the tokens of both") {
  const Plan plan = plan_for(twice, 10, {.way = EmbeddingExchange::rows});
  REQUIRE(plan.arena.rows.size() == 1);
  CHECK(plan.arena.rows.front().list.capacity == 2 * batch * length);
  CHECK(plan.arena.rows.front().overwrites);
  CHECK(count_ops(plan, "embedding_rows") == 1);
  CHECK(count_ops(plan, "embedding_backward") == 0);
}

TEST_CASE("rows only where the tokens of all ranks are fewer than half of the vocabulary, or as is asked") {
  const auto has_rows = [](const Wanted& wanted) {
    const Plan plan = plan_for(untied, 10, wanted);
    CHECK(count_ops(plan, "embedding_backward") == (plan.arena.rows.empty() ? 1 : 0));
    return !plan.arena.rows.empty();
  };
  CHECK(has_rows({.ranks = 2}));
  CHECK_FALSE(has_rows({.ranks = 3}));
  CHECK(has_rows({.ranks = 3, .way = EmbeddingExchange::rows}));
  CHECK_FALSE(has_rows({.ranks = 2, .way = EmbeddingExchange::dense}));
  CHECK_FALSE(has_rows({.ranks = 2, .schedule = {.exchange = false}}));
  CHECK_FALSE(has_rows({.ranks = 2, .micro_batches = 2}));
}

TEST_CASE("an embedding that is all that is learned stays dense: the control block goes with it") {
  const auto device = kernels::make_cpu_device(1);
  const Plan plan =
      make_plan(classifier([](Tensor x) { return embedding(x, "wte", vocab, 10); }), tokens_with_classes(10),
                {.key = {.batch = batch}, .buckets = {.ranks = 2}}, *device, {});
  CHECK(plan.arena.rows.empty());
  CHECK(plan.arena.buckets.back().with_control);
}

TEST_CASE(
    "a predicted step of several ranks exchanges rows where they do, in no more time than was measured") {
  const Plan plan = plan_for(untied, 10, {.ranks = 1, .schedule = {.exchange = false}});
  WorkTimes work;
  for (const Step& step : plan.steps) work[{step.kind, step.index}] = 1;
  const NodeTimes node{.work = {work}};
  const auto predicted = [&](int ranks) {
    return predict(std::span(&plan, 1), {.ranks = ranks, .ranks_per_node = 1, .link_bytes_per_s = 1000}, node,
                   {});
  };
  const double dense_bytes = 4.0 * static_cast<double>(plan.arena.elements);
  const kernels::RowListShape list{dim, batch * length, DType::f32};
  const double table = 4.0 * vocab * dim;
  const double two = (dense_bytes - table + static_cast<double>(list.bytes())) / 1000;
  CHECK(predicted(2).exchange == Approx(two).epsilon(0.15));  // buckets are padded
  CHECK(predicted(2).compute == Approx(predicted(1).compute));
  CHECK(predicted(3).exchange == Approx(dense_bytes * 4 / 3 / 1000).epsilon(0.1));
}

TEST_CASE("a predicted step sums what a tied weight has beside its rows with its bucket") {
  const Plan plan = plan_for(tied, vocab, {.ranks = 1, .schedule = {.exchange = false}});
  const Cluster two{.ranks = 2, .ranks_per_node = 1, .link_bytes_per_s = 1000};
  const kernels::RowListShape list{dim, batch * length, DType::f32};
  const double all = 4.0 * static_cast<double>(plan.arena.elements) + static_cast<double>(list.bytes());
  CHECK(predict(std::span(&plan, 1), two, {.work = {{}}}, {}).exchange == Approx(all / 1000).epsilon(0.15));
}

TEST_CASE("rows in the type of the gradients, and as the run's first plan has them") {
  const Plan first = plan_for(untied, 10, {.gradients = DType::bf16});
  REQUIRE(first.arena.rows.size() == 1);
  CHECK(first.arena.rows.front().list.dtype == DType::bf16);
  const auto device = kernels::make_cpu_device(1);
  const PlanConstraints constraints{.parameter_layouts = parameter_layouts(first.graph),
                                    .gradient_dtype = DType::bf16,
                                    .arena = first.arena};
  BucketLimits buckets = bucket_for_each;
  buckets.ranks = 2;
  const Plan smaller = make_plan(classifier(untied), tokens_with_classes(10),
                                 {.key = {.batch = 1}, .buckets = buckets}, *device, constraints);
  CHECK(smaller.arena.rows.front().list.capacity == batch * length);
  CHECK(count_ops(smaller, "embedding_rows") == 1);
  const std::string text = exchange_signature(first, *device, {});
  CHECK_THAT(text, Catch::Contains("rows of wte.weight: 20 from each rank at byte 0"));
}

}  // namespace
}  // namespace lockstep::runtime
