// Batches of padded sequences, cut to few lengths: the plans, and that they compute what those of whole rows
// do.
#include "data/lengths.h"

#include <algorithm>

#include "comm/make_communicator.h"
#include "kernels/base/philox.h"
#include "runtime/plan/signature.h"
#include "runtime/run/run_plans.h"
#include "runtime/step/executor.h"
#include "runtime/weights/parameter_io.h"
#include "tests/support/catch.h"
#include "tests/unit/runtime/one_replica.h"

namespace lockstep::runtime {
namespace {

using model::Tensor;

constexpr std::int64_t whole = 400;
constexpr std::int64_t vocabulary = 20;

/// 1000 rows of 1 to 400 tokens, most of them short, with a class for each token.
struct Padded : data::Dataset {
  std::int64_t size() const override { return 1000; }
  const data::SampleSpec& spec() const override { return sample; }
  std::int64_t length(std::int64_t index) const override {
    const double share = static_cast<double>(index * 7919 % 1000) / 999;
    return 1 + static_cast<std::int64_t>(share * share * (whole - 1));
  }
  void get(std::int64_t index, std::int64_t, std::span<std::byte> input,
           std::span<std::byte> target) const override {
    auto* const tokens = reinterpret_cast<std::int64_t*>(input.data());
    auto* const classes = reinterpret_cast<std::int64_t*>(target.data());
    for (std::int64_t at = 0; at < whole; ++at) {
      const bool there = at < length(index);
      tokens[at] = there ? (index + at * at) % vocabulary : data::padding_token;
      classes[at] = there && at % 5 != 4 ? (tokens[at] * 3 + 1) % vocabulary : data::no_class;
    }
  }
  data::SampleSpec sample{.input_dtype = DType::i64,
                          .input_shape = {whole},
                          .target_shape = {whole},
                          .num_classes = vocabulary,
                          .vocab_size = vocabulary};
};

const model::InputSpec padded_input{.shape = {whole},
                                    .num_classes = vocabulary,
                                    .target_shape = {whole},
                                    .dtype = DType::i64,
                                    .vocab_size = vocabulary};

Tensor tagger(Tensor x) {
  x = embedding(x, "embedding", vocabulary, 12);
  return linear(tanh(x), "fc", vocabulary);
}

TrainingTask padded_task(std::function<Tensor(Tensor)> forward) {
  return {.model = {.name = "tagger", .forward = std::move(forward)},
          .input = padded_input,
          .train_set = std::make_shared<Padded>(),
          .test_set = std::make_shared<Padded>()};
}

TEST_CASE("padded sequences have at most eight plans for their full batches, all with one signature") {
  Options options;
  options.epochs = 1;
  options.batch_size = 16;
  options.accumulate_steps = GENERATE(1, 3);
  const TrainingTask task = padded_task(tagger);
  const Batching batching = batching_of(options, {}, task.train_set->size());
  const BatchLengths lengths = batch_lengths_of(task, batching, nullptr);
  CHECK(lengths.training.size() <= data::most_lengths);
  CHECK(lengths.training.size() > 4);
  CHECK(lengths.training == lengths.evaluation);
  const auto requests = plan_requests(options, batching, 1, {}, true, lengths);
  const auto count = [&](MicroBatchRole role, Mode mode, bool full) {
    return std::ranges::count_if(requests, [&](const PlanRequest& request) {
      return request.key.role == role && request.key.mode == mode && (request.key.batch == 16) == full;
    });
  };
  const auto most = static_cast<std::ptrdiff_t>(data::most_lengths);
  for (const auto role :
       {MicroBatchRole::only, MicroBatchRole::first, MicroBatchRole::middle, MicroBatchRole::last}) {
    CHECK(count(role, Mode::train, true) <= most);
    CHECK(count(role, Mode::train, false) <= 1);
  }
  CHECK(count(MicroBatchRole::only, Mode::evaluate, true) <= most);
  CHECK(requests.front().key.length == lengths.training.back());

  const auto device = kernels::make_cpu_device(1);
  PlanConstraints constraints;
  std::string signature;
  std::size_t greatest = 0;
  for (const PlanRequest& request : requests) {
    if (request.key.mode != Mode::train || !ends_step(request.key.role)) continue;
    const Plan plan = make_plan(task.model, task.input, request, *device, constraints);
    if (signature.empty()) {
      signature = exchange_signature(plan, *device, {});
      greatest = plan.activations.bytes;
      constraints.parameter_layouts = parameter_layouts(plan.graph);
      constraints.arena = plan.arena;
    }
    CHECK(exchange_signature(plan, *device, {}) == signature);
    CHECK(plan.activations.bytes <= greatest);
    CHECK(plan.bytes_of(model::Role::input) ==
          static_cast<std::size_t>(request.key.batch * request.key.length) * 8);
  }
}

/// Whole rows read the table of positions as it is, shorter ones a part that is cut off before tokens are
/// looked up: so the table's gradient is ready before the embedding's, or behind it.
Tensor tagger_with_positions(Tensor x) {
  const Tensor table = parameter(x.graph(), "positions", {whole, 12}, {.deviation = 1});
  const Tensor positions = rows_of_positions(x, table);
  return linear(tanh(add(embedding(x, "embedding", vocabulary, 12), positions)), "fc", vocabulary);
}

/// The communicator's calls in their order.
std::vector<ExchangeCall> calls_of(const Plan& plan) {
  std::vector<ExchangeCall> calls;
  for (const Step& step : plan.steps) {
    const bool sums = step.kind == Step::Kind::all_reduce || step.kind == Step::Kind::all_reduce_inline;
    const bool gathers = step.kind == Step::Kind::gather_rows || step.kind == Step::Kind::gather_rows_inline;
    if (sums || gathers) calls.push_back({.is_rows = gathers, .index = step.index});
  }
  return calls;
}

TEST_CASE("ranks whose batches have different lengths call the communicator in the same order") {
  const ScheduleOptions schedule =
      GENERATE(ScheduleOptions{}, ScheduleOptions{.overlap = false}, ScheduleOptions{.defers = true},
               ScheduleOptions{.stream_ordered = true});
  const auto device = kernels::make_cpu_device(1);
  PlanConstraints constraints{.embedding_exchange = EmbeddingExchange::rows};
  BucketLimits buckets = testing::bucket_for_each;
  buckets.ranks = 2;
  const auto planned = [&](std::int64_t length) {
    return make_plan({.name = "tagger", .forward = tagger_with_positions}, padded_input,
                     {.key = {.batch = 4, .length = length}, .buckets = buckets, .schedule = schedule},
                     *device, constraints);
  };
  const Plan uncut = planned(whole);
  constraints.parameter_layouts = parameter_layouts(uncut.graph);
  constraints.arena = uncut.arena;
  const Plan cut = planned(40);
  REQUIRE(uncut.arena.rows.size() == 1);
  REQUIRE(uncut.arena.buckets[exchanged_buckets(uncut.arena) - 1].first_parameter == "positions");
  const auto rows_come_first = [](const Plan& plan) {
    return rows_ready_nodes(plan.graph, plan.arena).front() <
           bucket_ready_nodes(plan.graph, plan.arena)[exchanged_buckets(plan.arena) - 1];
  };
  CHECK_FALSE(rows_come_first(uncut));
  CHECK(rows_come_first(cut));
  CHECK(calls_of(uncut).size() == exchanged_buckets(uncut.arena) + 1);
  CHECK(calls_of(cut) == calls_of(uncut));
}

TEST_CASE("a model whose parameters follow the length of its input learns from whole rows") {
  Options options;
  options.epochs = 1;
  options.batch_size = 8;
  const auto lengths_of = [&](std::function<Tensor(Tensor)> forward) {
    const TrainingTask task = padded_task(std::move(forward));
    return batch_lengths_of(task, batching_of(options, {}, 1000), nullptr).training;
  };
  CHECK_FALSE(lengths_of(tagger).empty());
  CHECK(lengths_of([](Tensor x) {
          x = flatten(embedding(x, "embedding", vocabulary, 12));
          return reshape(linear(x, "fc", whole * vocabulary), {-1, whole, vocabulary});
        }).empty());
}

/// A step on the first samples of `Padded` that are no longer than `cut`.
struct Result {
  kernels::ControlBlock control;
  std::vector<NamedTensor> gradients;
};

Result step_of(std::int64_t cut, std::int64_t given, DType compute_dtype) {
  constexpr std::int64_t rows = 12;
  const auto device = kernels::make_cpu_device(1);
  const auto communicator = comm::make_communicator({}, {});
  const Padded set;
  std::vector<Plan> plans;
  plans.push_back(make_plan({.name = "tagger", .forward = tagger}, padded_input,
                            {.key = {.batch = rows, .length = given}}, *device,
                            {.compute_dtype = compute_dtype}));
  ReplicaMemory memory(*device, *communicator, plans);
  Executor executor(*device, *communicator, memory);
  ParameterIO replica(*device, plans[0], memory);
  replica.initialise(5);
  const std::int64_t length = given == 0 ? whole : given;
  std::vector<std::int64_t> tokens(whole);
  std::vector<std::int64_t> classes(whole);
  std::int64_t targets = 0;
  std::int64_t row = 0;
  for (std::int64_t i = 0; row < rows; ++i) {
    if (set.length(i) > cut) continue;
    set.get(i, 0, std::as_writable_bytes(std::span(tokens)), std::as_writable_bytes(std::span(classes)));
    targets += set.valid_targets(i, 0);
    std::copy_n(tokens.begin(), length, static_cast<std::int64_t*>(memory.input(0)) + row * length);
    std::copy_n(classes.begin(), length, static_cast<std::int64_t*>(memory.target(0)) + row * length);
    ++row;
  }
  memory.host_input(0) = {
      .state = {.loss_scale = kernels::loss_scale_for(static_cast<double>(targets)), .valid_samples = rows},
      .control = {}};
  executor.run(plans[0], 0);
  CHECK(memory.host_control(0).targets == static_cast<float>(targets));
  return {memory.host_control(0), replica.gradients()};
}

TEST_CASE("a batch that is cut has the loss and the gradients of whole rows") {
  // The same terms and zeros of padding; how a product blocks its sums follows its number of rows.
  for (const std::int64_t length : {8, 40, 296}) {
    const Result cut = step_of(length, length, DType::f32);
    const Result uncut = step_of(length, 0, DType::f32);
    CHECK(cut.control.loss == Approx(uncut.control.loss).epsilon(1e-6));
    CHECK(cut.control.correct == uncut.control.correct);
    CHECK(testing::relative_distance(cut.gradients, uncut.gradients) < 2e-6);
    const Result half = step_of(length, length, DType::bf16);
    CHECK(half.control.loss == Approx(uncut.control.loss).epsilon(2e-2));
    CHECK(testing::relative_distance(half.gradients, step_of(length, 0, DType::bf16).gradients) < 1e-2);
  }
}

}  // namespace
}  // namespace lockstep::runtime
