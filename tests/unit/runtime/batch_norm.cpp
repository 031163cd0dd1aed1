// Batch norm in plans: what it takes up, when its running statistics move, and how they go through files.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "comm/make_communicator.h"
#include "kernels/base/safetensors.h"
#include "runtime/step/executor.h"
#include "runtime/weights/parameter_io.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/runtime/small_plans.h"

namespace lockstep::runtime {
namespace {

using model::Tensor;
using testing::classifier;
using testing::images;

/// The batch's own numbers are normalised, so that a test knows the statistics.
Tensor normed_net(Tensor x) {
  return linear(flatten(relu(batch_norm2d(x, "bn"))), "fc", 10);
}

/// ResNet's block.
Tensor block(Tensor x) {
  const Tensor h =
      relu(batch_norm2d(conv2d(x, "conv1", {.out_channels = 3, .kernel = 3, .padding = 1}), "bn1"));
  const Tensor y = batch_norm2d(conv2d(h, "conv2", {.out_channels = 3, .kernel = 3, .padding = 1}), "bn2");
  return relu(add(y, x));
}

/// Plans for training and evaluation on one rank, on a batch of 4 pictures.
class Replica {
 public:
  explicit Replica(double clip_grad_norm = 0) {
    PlanConstraints constraints;
    for (const Mode mode : {Mode::train, Mode::evaluate}) {
      plans_.push_back(make_plan(classifier(normed_net), images,
                                 {.key = {.mode = mode, .batch = 4},
                                  .clip_grad_norm = mode == Mode::train ? clip_grad_norm : 0,
                                  .optimizer = {.kind = model::OptimizerKind::sgd}},
                                 *device_, constraints));
      constraints.parameter_layouts = parameter_layouts(plans_[0].graph);
      constraints.arena = plans_[0].arena;
    }
    memory_ = std::make_unique<ReplicaMemory>(*device_, *communicator_, plans_);
    executor_ = std::make_unique<Executor>(*device_, *communicator_, *memory_);
    io().initialise(5);
    for (std::size_t i = 0; i < batch().size(); ++i) batch()[i] = std::sin(static_cast<float>(i));
  }

  ParameterIO io() { return {*device_, plans_.front(), *memory_}; }
  std::span<float> batch() { return {static_cast<float*>(memory_->input(0)), 4 * 3 * 8 * 8}; }

  kernels::ControlBlock run(Mode mode) {
    memory_->host_input(0).state = {.learning_rate = 0.1, .loss_scale = 0.25F, .valid_samples = 4};
    executor_->run(plans_[mode == Mode::train ? 0 : 1], 0);
    return memory_->host_control(0);
  }

  NamedTensor buffer(const std::string& name) {
    const std::vector<NamedTensor> all = io().parameters();
    const auto found = std::ranges::find(all, name, &NamedTensor::name);
    REQUIRE(found != all.end());
    return *found;
  }
  std::int64_t batches() {
    const NamedTensor count = buffer("bn.num_batches_tracked");
    REQUIRE(count.dtype == DType::i64);
    std::int64_t value = 0;
    std::memcpy(&value, count.values.data(), sizeof(value));
    return value;
  }

 private:
  std::unique_ptr<kernels::Device> device_ = kernels::make_cpu_device(1);
  std::unique_ptr<comm::Communicator> communicator_ = comm::make_communicator({}, {});
  std::vector<Plan> plans_;
  std::unique_ptr<ReplicaMemory> memory_;
  std::unique_ptr<Executor> executor_;
};

/// Mean and unbiased variance of channel 0 of the batch.
std::pair<double, double> first_channel(std::span<const float> batch) {
  std::vector<double> numbers;
  for (std::size_t image = 0; image < 4; ++image) {
    for (std::size_t pixel = 0; pixel < 64; ++pixel) {
      numbers.push_back(static_cast<double>(batch[image * 192 + pixel]));
    }
  }
  const auto count = static_cast<double>(numbers.size());
  double mean = 0;
  double squares = 0;
  for (const double number : numbers) mean += number / count;
  for (const double number : numbers) squares += (number - mean) * (number - mean);
  return {mean, squares / (count - 1)};
}

TEST_CASE("batch norm: running statistics follow the batches, and only in training") {
  Replica replica;
  CHECK(replica.batches() == 0);
  CHECK(replica.buffer("bn.running_var").values == std::vector<float>(3, 1));
  for (int step = 0; step < 3; ++step) replica.run(Mode::train);
  const auto [mean, variance] = first_channel(replica.batch());
  const double left = std::pow(0.9, 3);
  // Three steps, each rounded once; the mean about one of the numbers, which are up to 1.
  CHECK(replica.buffer("bn.running_mean").values[0] == Approx((1 - left) * mean).margin(1e-7));
  CHECK(replica.buffer("bn.running_var").values[0] == Approx(left + (1 - left) * variance).epsilon(1e-6));
  CHECK(replica.batches() == 3);

  const std::string before = sha256_of(replica.io().parameters());
  const float evaluated = replica.run(Mode::evaluate).loss;
  CHECK(sha256_of(replica.io().parameters()) == before);
  CHECK(evaluated != replica.run(Mode::train).loss);
}

TEST_CASE("batch norm: a step whose update is skipped moves no running statistics") {
  Replica replica(1.0);
  replica.run(Mode::train);
  const std::string before = sha256_of(replica.io().parameters());
  replica.batch()[5] = std::numeric_limits<float>::infinity();
  CHECK(replica.run(Mode::train).not_finite > 0);
  CHECK(sha256_of(replica.io().parameters()) == before);
  CHECK(replica.batches() == 1);
}

TEST_CASE("batch norm: its buffers go through files to the bit, the count as PyTorch's i64") {
  const tests::TemporaryFolder folder;
  Replica one;
  for (int step = 0; step < 2; ++step) one.run(Mode::train);
  save_tensors(folder / "model", one.io().parameters());
  const SafetensorsFile file(folder / "model");
  const auto* const count = file.find("bn.num_batches_tracked");
  REQUIRE(count != nullptr);
  CHECK(count->dtype == DType::i64);
  CHECK(count->shape == Shape{});
  Replica other;
  other.io().load(WeightsFile(folder / "model"));
  CHECK(other.batches() == 2);
  CHECK(sha256_of(other.io().parameters()) == sha256_of(one.io().parameters()));
  CHECK(other.run(Mode::evaluate).loss == one.run(Mode::evaluate).loss);
}

TEST_CASE(
    "batch norm: of files from before PyTorch counted batches the count is 0; other tensors must be there") {
  const tests::TemporaryFolder folder;
  Replica trained;
  trained.run(Mode::train);
  const auto loaded_without = [&](const std::string& name) {
    std::vector<NamedTensor> tensors = trained.io().parameters();
    std::erase_if(tensors, [&](const NamedTensor& tensor) { return tensor.name == name; });
    save_tensors(folder / "model", tensors);
    trained.io().load(WeightsFile(folder / "model"));
  };
  CHECK(trained.batches() == 1);
  loaded_without("bn.num_batches_tracked");
  CHECK(trained.batches() == 0);
  CHECK_THROWS_WITH(loaded_without("bn.running_mean"), tests::contains("has no tensor 'bn.running_mean'"));
}

std::vector<std::string> attributes_of_norms(const model::Graph& graph) {
  std::vector<std::string> attributes;
  for (const model::Node& node : graph.nodes()) {
    if (node.op->name() == "batch_norm") attributes.push_back(node.op->attributes());
  }
  return attributes;
}

TEST_CASE("fuse_batch_norm: ResNet's block is two norms in forward, with the shortcut in the second") {
  model::Graph graph =
      build_graph(classifier([](Tensor x) { return linear(flatten(block(x)), "fc", 10); }), images, 4, true);
  fuse_batch_norm(graph);
  CHECK(attributes_of_norms(graph) == std::vector<std::string>{"then relu", "then relu"});
  CHECK(std::ranges::count_if(graph.nodes(), [](const auto& node) { return node.inputs.size() == 6; }) == 1);
  const std::vector<std::string> ops = testing::ops_of(graph);
  CHECK(std::ranges::count(ops, "relu") == 0);
  CHECK(std::ranges::count(ops, "add") == 0);
}

TEST_CASE("fuse_batch_norm: what others read too stays") {
  model::Graph graph = build_graph(classifier([](Tensor x) {
                                     const Tensor y = batch_norm2d(x, "bn");
                                     return linear(flatten(mul(relu(y), y)), "fc", 10);
                                   }),
                                   images, 4, true);
  fuse_batch_norm(graph);
  CHECK(attributes_of_norms(graph) == std::vector<std::string>{""});
}

TEST_CASE("schedule: running statistics move behind all of backward, and behind what may skip the update") {
  const auto device = kernels::make_cpu_device(1);
  const double clip_grad_norm = GENERATE(0.0, 2.0);
  const bool stream_ordered = GENERATE(false, true);
  const Plan plan = testing::plan_of(classifier(normed_net), *device,
                                     {.buckets = testing::bucket_for_each,
                                      .schedule = {.stream_ordered = stream_ordered},
                                      .clip_grad_norm = clip_grad_norm});
  const auto is_update = [&](const Step& step) {
    return step.kind == Step::Kind::launch && plan.graph.is_update(plan.graph.nodes()[step.index]);
  };
  REQUIRE(std::ranges::count_if(plan.steps, is_update) == 1);
  const auto update = std::ranges::find_if(plan.steps, is_update);
  CHECK(std::none_of(update + 1, plan.steps.end(), [&](const Step& step) {
    return step.kind == Step::Kind::clip || step.kind == Step::Kind::launch;
  }));
  if (clip_grad_norm > 0) {
    const auto clip = std::ranges::find(plan.steps, Step::Kind::clip, &Step::kind);
    CHECK(clip->stream == update->stream);
  }
}

}  // namespace
}  // namespace lockstep::runtime
