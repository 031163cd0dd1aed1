#include <cstring>

#include "kernels/base/error.h"
#include "runtime/output/console.h"
#include "runtime/run/run_plans.h"
#include "runtime/run/task.h"
#include "runtime/run/training_progress.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace lockstep::runtime {
namespace {

using tests::message_of;

comm::World world_of(int size) {
  comm::World world;
  world.size = size;
  return world;
}

TEST_CASE("steps of a run: by epochs, by --max-steps, by the first of both") {
  Options options;
  options.batch_size = 4;
  options.epochs = 2;
  const auto steps = [&] { return batching_of(options, world_of(2), 19).total_steps; };
  CHECK(steps() == 6);  // 10 samples per rank: two full batches and one of 2
  options.drop_last = true;
  CHECK(steps() == 4);  // 9 samples per rank
  options.max_steps = 3;
  CHECK(steps() == 3);
  options.epochs = 0;
  options.max_steps = 100;
  CHECK(steps() == 100);
}

TEST_CASE("a long evaluation tells how far it is every ten seconds, a short one nothing") {
  std::vector<std::string> lines;
  const Clock::time_point begin = Clock::now();
  EvaluationProgress progress(
      4000, [&](const std::string& line) { lines.push_back(line); }, begin);
  const auto after = [&](int seconds, std::int64_t done) {
    progress.advance(done, begin + std::chrono::seconds(seconds));
  };
  after(9, 900);
  CHECK(lines.empty());
  after(10, 1000);
  CHECK(lines == std::vector<std::string>{"evaluating  sample 1000/4000  100 samples/s  0:30 left"});
  after(19, 1900);
  CHECK(lines.size() == 1);
  after(400, 2000);
  CHECK(lines.back() == "evaluating  sample 2000/4000  5.0 samples/s  6:40 left");
  after(500, 4000);  // the result follows
  CHECK(lines.size() == 2);
  EvaluationProgress untold(4000, {}, begin);
  untold.advance(2000, begin + std::chrono::seconds(20));
}

TEST_CASE("a batch is at most an epoch, and every rank needs one") {
  Options options;
  options.batch_size = 64;
  const Batching batching = batching_of(options, world_of(2), 10);
  CHECK(batching.batch_size == 5);
  CHECK(batching.epoch_samples == 5);
  options.drop_last = true;
  CHECK_THROWS_AS(batching_of(options, world_of(2), 10), UsageError);
}

TEST_CASE("a run's progress survives a checkpoint, at the end of an epoch too") {
  const bool last = GENERATE(false, true);
  TrainingProgress before{.step = 7, .epoch_samples = 24, .samples = 70, .evaluated_at_step = 5};
  before.advance({.epoch = 2, .index = 4, .samples = 3, .last_of_epoch = last}, 6, {.loss = 0.5F});
  CHECK(before.step == 8);
  CHECK(before.samples == 76);
  CHECK(before.loss == 0.5);
  CHECK(before.next_epoch == (last ? 3 : 2));
  CHECK(before.epoch_samples == (last ? 0 : 30));
  CHECK(before.next_batch(6) == (last ? 0 : 5));
  CHECK(before.ends_evaluated_epoch(3) == last);
  CHECK_FALSE(before.ends_evaluated_epoch(2));
  CHECK_FALSE(before.ends_evaluated_epoch(0));

  const TrainingProgress after = TrainingProgress::of(before.state());
  CHECK(after.step == before.step);
  CHECK(after.epoch == 2);
  CHECK(after.next_epoch == before.next_epoch);
  CHECK(after.epoch_samples == before.epoch_samples);
  CHECK(after.samples == before.samples);
  CHECK(after.loss == before.loss);
  CHECK(after.evaluated_at_step == 5);
}

TEST_CASE("each rank's next batch follows from the samples that are done, however many ranks did them") {
  const TrainingProgress position{.next_epoch = 2, .epoch_samples = 96};
  CHECK(position.next_batch(4 * 8) == 3);
  CHECK(position.next_batch(2 * 16) == 3);
  CHECK(position.next_batch(2 * 8) == 6);
  CHECK_THAT(message_of<DataError>([&] { position.next_batch(36); }),
             tests::contains("96 samples of epoch 3 are done"));
}

TEST_CASE(
    "an epoch that other ranks began goes on with its rest, and the run's steps are counted from there") {
  Options options;
  options.batch_size = 4;
  options.epochs = 2;
  // 2 ranks have done two steps of 8 of 50 samples; 3 ranks get 34, so 12 rows each: 4, 4, 4.
  TrainingProgress progress{.step = 2, .epoch_samples = 16, .samples = 16};
  progress.deal_rest();
  Batching batching = batching_of(options, world_of(3), 50);
  resume_batching(batching, options, sampler_for(options, world_of(3), 50), progress);
  CHECK(batching.rest_epoch == 0);
  CHECK(batching.rest.samples == 12);
  CHECK(batching.total_steps == 2 + 3 + 5);  // then 17 samples a rank
  CHECK(progress.next_batch(3 * 4) == 0);

  // The same ranks go on where they were.
  TrainingProgress same{.step = 2, .epoch_samples = 16, .samples = 16};
  Batching before = batching_of(options, world_of(2), 50);
  const std::int64_t total = before.total_steps;
  resume_batching(before, options, sampler_for(options, world_of(2), 50), same);
  CHECK(before.total_steps == total);
  CHECK(before.rest_epoch == -1);

  // --drop-last: two samples are no batch of 4 for each of 3 ranks.
  options.drop_last = true;
  TrainingProgress late{.step = 6, .epoch_samples = 48, .samples = 48};
  late.deal_rest();
  Batching dropped = batching_of(options, world_of(3), 50);
  resume_batching(dropped, options, sampler_for(options, world_of(3), 50), late);
  CHECK(late.next_epoch == 1);
  CHECK(late.epoch_samples == 0);
  CHECK(dropped.total_steps == 6 + 4);
}

TEST_CASE("a warm-up that is over fits, or has begun, however few steps the ranks make now") {
  Options options;
  options.batch_size = 4;
  options.epochs = 2;
  options.optimizer.schedule.warmup_steps = 9;
  const auto refusal = [&](const Batching& batching, bool resumes = false) {
    return message_of<UsageError>([&] { require_schedule(options, batching, resumes); });
  };
  // One rank has done 12 steps of 4 of 50 samples; 8 ranks make one of the rest, and two in an epoch.
  Batching batching = batching_of(options, world_of(8), 50);
  CHECK_FALSE(refusal(batching).empty());
  TrainingProgress progress{.step = 12, .epoch_samples = 48, .samples = 48};
  progress.deal_rest();
  resume_batching(batching, options, sampler_for(options, world_of(8), 50), progress);
  CHECK(batching.total_steps == 15);
  CHECK(refusal(batching).empty());
  // Three such steps leave 38 samples: 8 ranks make two steps of them.
  Batching within = batching_of(options, world_of(8), 50);
  TrainingProgress early{.step = 3, .epoch_samples = 12, .samples = 12};
  early.deal_rest();
  resume_batching(within, options, sampler_for(options, world_of(8), 50), early);
  CHECK(within.total_steps == 7);
  CHECK_FALSE(refusal(within).empty());
  CHECK(refusal(within, true).empty());
  options.max_steps = 7;
  CHECK_FALSE(refusal(within, true).empty());
  options.max_steps = 0;
  options.optimizer.schedule.least = 1;
  CHECK_FALSE(refusal(within, true).empty());
}

TEST_CASE("a run that no memory can hold is refused before it has any") {
  Options options;
  options.optimizer.kind = model::OptimizerKind::sgd;
  std::vector<Plan> plans(1);
  plans.front().graph.add_value("input", {DType::f32, {4, 2}}, model::Role::input);
  plans.front().graph.add_value("target", {DType::i64, {4}}, model::Role::target);
  plans.front().request.optimizer = options.optimizer;
  plans.front().arena.elements = std::int64_t{1} << 36;
  CHECK(run_memory_need(options, plans).total() > std::size_t{1} << 39);
  plans.front().arena.elements = std::int64_t{1} << 37;
  CHECK_THAT(message_of<UsageError>([&] { run_memory_need(options, plans); }),
             tests::contains("549755813888 of parameters"));
  options.batch_size = most_global_batch;
  CHECK(batch_size_per_rank(options, 1) == most_global_batch);
  CHECK_THROWS_AS(batch_size_per_rank(options, 2), UsageError);
}

TEST_CASE("samples of another dtype or size than the batch slots, and in no possible number, are refused") {
  struct Samples : data::Dataset {
    std::int64_t size() const override { return count; }
    const data::SampleSpec& spec() const override { return sample; }
    void get(std::int64_t, std::int64_t, std::span<std::byte>, std::span<std::byte>) const override {}
    std::int64_t count = 8;
    data::SampleSpec sample{.input_shape = {3}, .num_classes = 2};
  };
  const auto refusal = [](const data::SampleSpec& sample, std::int64_t count = 8) {
    auto set = std::make_shared<Samples>();
    set->sample = sample;
    set->count = count;
    const TrainingTask task{
        .model = {}, .input = {.shape = {3}, .num_classes = 2}, .train_set = set, .test_set = nullptr};
    return message_of<UsageError>([&] { require_fitting(task, {}); });
  };
  CHECK(refusal({.input_shape = {3}, .num_classes = 2}).empty());
  CHECK(refusal({.input_dtype = DType::i64, .input_shape = {3}, .num_classes = 2}) ==
        "the data set gives inputs of i64 (3), the model takes f32 (3)");
  CHECK(refusal({.input_shape = {4}, .num_classes = 2}) ==
        "the data set gives inputs of f32 (4), the model takes f32 (3)");
  CHECK(refusal({.input_shape = {3}, .target_shape = {2}, .num_classes = 2}) ==
        "the data set gives targets of i64 (2), the model takes i64 (scalar)");
  for (const std::int64_t count : {std::int64_t{-5}, std::int64_t{0}, std::int64_t{1} << 62}) {
    CHECK(refusal({.input_shape = {3}, .num_classes = 2}, count) ==
          "the training set has " + std::to_string(count) + " samples: 1 to 1099511627776 are possible");
  }
  CHECK_THAT(refusal({.input_shape = {3}, .num_classes = -3}),
             tests::contains("the training set has -3 classes: 1 to 16777216 are possible"));
  CHECK_THAT(refusal({.input_shape = {-3}, .num_classes = 2}),
             tests::contains("shape -3 has a negative size"));
}

TEST_CASE("a batch slot holds inputs of their dtype") {
  const auto device = kernels::make_cpu_device(1);
  const auto bytes_of_inputs = [&](DType dtype) {
    // No layer takes integers yet: the model learns from a parameter alone.
    const model::Model model{
        .name = "bias", .forward = [](model::Tensor x) {
          model::Graph& graph = x.graph();
          const model::Tensor ones(graph, graph.add_parameter("ones", {x.shape()[0], 3}, {}));
          return model::linear(ones, "fc", 2);
        }};
    const model::InputSpec input{.shape = {5}, .num_classes = 2, .target_shape = {}, .dtype = dtype};
    const Plan plan = make_plan(model, input, {.key = {.mode = Mode::evaluate, .batch = 4}}, *device, {});
    return plan.bytes_of(model::Role::input);
  };
  CHECK(bytes_of_inputs(DType::f32) == 4 * 5 * 4);
  CHECK(bytes_of_inputs(DType::i64) == 4 * 5 * 8);
  CHECK(bytes_of_inputs(DType::u16) == 4 * 5 * 2);
  CHECK(bytes_of_inputs(DType::u8) == 4 * 5);
}

TEST_CASE("the bar shows whole fields in any width, the most important longest") {
  const Progress progress{.step = 149,
                          .total_steps = 1407,
                          .epoch = 0,
                          .epochs = 3,
                          .loss = 0.6864,
                          .gradient_norm = {},
                          .samples_per_s = 9426,
                          .step_ms = 13.58,
                          .exposed_comm_ms = 0.95,
                          .data_wait_ms = 0,
                          .seconds_left = 17};
  const std::string whole = progress_line(progress);
  CHECK(whole ==
        "epoch 1/3  step 149/1407  loss 0.6864  9426 samples/s  13.58 ms (compute 12.63 exchange 0.95 data "
        "0.00)  0:17 left");
  std::size_t before = 0;
  for (std::size_t width = 40; width <= 200; ++width) {
    std::string line = progress_bar(progress, width);
    INFO(width << ": " << line);
    CHECK(line.size() <= width);
    CHECK(line.size() >= before);
    before = line.size();
    if (line.starts_with('[')) line = line.substr(line.find(']') + 2);
    std::size_t at = 0;
    for (const char* field : {"epoch 1/3", "  step 149/1407", "  loss 0.6864", "  9426 samples/s",
                              "  13.58 ms", " (compute 12.63 exchange 0.95 data 0.00)", "  0:17 left"}) {
      if (line.compare(at, std::strlen(field), field) == 0) at += std::strlen(field);
    }
    CHECK(at == line.size());
  }
  CHECK(progress_bar(progress, 79) ==
        "epoch 1/3  step 149/1407  loss 0.6864  9426 samples/s  13.58 ms  0:17 left");
  CHECK(progress_bar(progress, 40) == "epoch 1/3  step 149/1407  loss 0.6864");
  CHECK(progress_bar(progress, 20) == "step 149/1407");
}

TEST_CASE("the learning rate stands in the line, with four digits") {
  CHECK(progress_line({.step = 3, .loss = 0.5, .learning_rate = 0.00012345678, .gradient_norm = {}})
            .starts_with("epoch 1  step 3  loss 0.5000  lr 0.0001235  0 samples/s"));
}

TEST_CASE("printed lines: accuracy only of classes, no plural for one rank") {
  CHECK(evaluation_line(1, {.loss = 0.25, .accuracy = 0.5, .samples = 10, .top5 = 0.75}) ==
        "epoch 2: test loss 0.2500, accuracy 0.5000, top5 0.7500 (10 samples)");
  CHECK(evaluation_line(1, {.loss = 0.25, .accuracy = 0.5, .samples = 10}) ==
        "epoch 2: test loss 0.2500, accuracy 0.5000 (10 samples)");
  CHECK(evaluation_line(0, {.loss = 0.25, .accuracy = 0, .samples = 10, .classes = false}) ==
        "epoch 1: test loss 0.2500 (10 samples)");
  CHECK(opening_line({.model = "mlp",
                      .parameters = 12,
                      .world_size = 1,
                      .threads = 2,
                      .batch_size = 64,
                      .planned_bytes = 3 << 19}) ==
        "mlp: 12 parameters, 1 rank x 2 threads, batch 64 per rank, 1.5 MiB planned per rank");
}

}  // namespace
}  // namespace lockstep::runtime
