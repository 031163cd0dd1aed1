// Copies of parameters in the type that layers compute in, against the casts in every step that they replace.
#include <algorithm>
#include <memory>

#include "comm/make_communicator.h"
#include "kernels/base/half.h"
#include "kernels/base/philox.h"
#include "runtime/step/executor.h"
#include "runtime/weights/parameter_io.h"
#include "tests/support/catch.h"
#include "tests/support/device_under_test.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/runtime/optimizer_state_of.h"
#include "tests/unit/runtime/small_plans.h"

namespace lockstep::runtime {
namespace {

using model::OptimizerKind;
using model::Tensor;
using testing::classifier;
using testing::images;

constexpr std::int64_t samples = 4;
const PlanKey whole{.batch = samples};
const PlanKey first{.role = MicroBatchRole::first, .batch = samples};
const PlanKey last{.role = MicroBatchRole::last, .batch = samples};
const PlanKey evaluation{.mode = Mode::evaluate, .batch = samples};

/// With blocked and plain layouts, a norm in f32, blocks that may be computed again, a weight in parts, and
/// one that is also read in f32.
Tensor net(Tensor x) {
  x = model::segment(x, [](Tensor y) {
    y = relu(batch_norm2d(conv2d(y, "conv1", {.out_channels = 16, .kernel = 3, .padding = 1}), "bn"));
    return max_pool2d(conv2d(y, "conv2", {.out_channels = 16, .kernel = 3, .padding = 1}));
  });
  x = model::segment(x, [](Tensor y) { return layer_norm(relu(linear(flatten(y), "fc1", 20)), "norm"); });
  model::Graph& graph = x.graph();
  const auto halves = split(parameter(graph, "halves.weight", {40, 20}, {.bound = 0.2F}), {24, 16}, 0);
  const auto shifts = split(parameter(graph, "halves.bias", {40}), {24, 16}, 0);
  x = model::concat({shared_linear(x, halves[0], shifts[0]), shared_linear(x, halves[1], shifts[1])}, 1);
  x = linear(x, "tied", 10);
  const auto tied = std::ranges::find_if(graph.parameters(), [&](const model::Parameter& parameter) {
    return graph.value(parameter.value).name == "tied.weight";
  });
  return add(x, reshape(split(Tensor(graph, tied->value), {1, 39}, 1)[0], {1, 10}));
}

/// The passes of make_plan but for copy_parameters, with the layouts and the schedule of `like`.
Plan plan_with_casts(const Plan& like, const kernels::Device& device, const PlanConstraints& constraints) {
  const PlanKey& key = like.key();
  Plan plan;
  plan.request = like.request;
  plan.compute_dtype = like.compute_dtype;
  plan.graph = model::build_graph(classifier(net), images, key.batch, true);
  freeze_parameters(plan.graph, constraints.freeze);
  autocast(plan.graph, constraints.compute_dtype);
  fuse_batch_norm(plan.graph);
  differentiate(plan.graph);
  fuse(plan.graph);
  set_precision(plan.graph, constraints.matmul_precision, like.conv_precision);
  if (!device.is_cpu()) pad_widths(plan.graph, parameter_layouts(like.graph), false);
  assign_layouts(plan.graph, device, parameter_layouts(like.graph));
  if (!begins_step(key.role)) accumulate_gradients(plan.graph);
  if (constraints.recompute) recompute(plan.graph);
  plan.arena = assign_buckets(plan.graph, like.request.buckets);
  plan.activations = allocate_activations(plan.graph);
  const LaunchOptions launches{.key = key,
                               .clips = plan.compute_dtype == DType::f16,
                               .scales_gradients = plan.compute_dtype == DType::f16,
                               .optimizer = like.request.optimizer};
  plan.launches = prepare_launches(plan.graph, plan.arena, plan.activations,
                                   prepare_nodes(plan.graph, device), launches, device);
  const ScheduleOptions options{.exchange = false, .clips = launches.clips};
  Schedule schedule = ends_step(key.role) ? schedule_training(plan.graph, plan.arena, options)
                                          : schedule_nodes(plan.graph, plan.arena, options);
  plan.steps = std::move(schedule.steps);
  plan.events = std::move(schedule.events);
  plan.workspace_bytes = assign_workspace(plan.launches, plan.steps);
  return plan;
}

enum class Way { copies, casts };

/// One replica of `net` on the device under test.
class Replica {
 public:
  Replica(Way way, const std::vector<PlanKey>& keys, PlanConstraints constraints,
          const model::OptimizerOptions& optimizer)
      : optimizer_(optimizer) {
    for (const PlanKey& key : keys) {
      Plan plan = make_plan(classifier(net), images,
                            {.key = key,
                             .buckets = testing::bucket_for_each,
                             .schedule = {.exchange = false},
                             .optimizer = optimizer},
                            *device_, constraints);
      constraints.parameter_layouts = parameter_layouts(plan.graph);
      if (way == Way::copies) constraints.arena = plan.arena;
      plans_.push_back(way == Way::copies ? std::move(plan) : plan_with_casts(plan, *device_, constraints));
    }
    memory_ = std::make_unique<ReplicaMemory>(*device_, *communicator_, plans_);
    executor_ = std::make_unique<Executor>(*device_, *communicator_, *memory_);
    weights().initialise(3);
  }

  ParameterIO weights() { return {*device_, plans_[0], *memory_}; }
  const Plan& plan() const { return plans_[0]; }
  Executor& executor() { return *executor_; }

  /// The loss of a batch that `number` tells from others.
  float run(const PlanKey& key, std::uint64_t number, float loss_scale = 1.0F / samples) {
    const Plan& plan = *std::ranges::find(plans_, key, &Plan::key);
    std::vector<float> pixels(plan.bytes_of(model::Role::input) / sizeof(float));
    Philox(number, 0).normals(0, pixels);
    std::vector<std::int64_t> targets;
    for (std::uint64_t i = 0; i < samples; ++i)
      targets.push_back(static_cast<std::int64_t>((number + i) * 7 % 10));
    kernels::Stream& stream = executor_->stream();
    device_->copy_to_device(memory_->input(slot), pixels.data(), plan.bytes_of(model::Role::input), stream);
    device_->copy_to_device(memory_->target(slot), targets.data(), plan.bytes_of(model::Role::target),
                            stream);
    memory_->host_input(slot) = {.state = {.learning_rate = optimizer_.learning_rate,
                                           .loss_scale = loss_scale,
                                           .valid_samples = samples},
                                 .control = {}};
    executor_->run(plan, slot);
    return memory_->host_control(slot).loss;
  }

  /// Whether each copy is what its parameter rounds to.
  bool copies_are_rounded() {
    const std::vector<std::byte> bytes = on_host(memory_->parameters());
    const std::span values(reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float));
    return plan().arena.copy_dtype == DType::bf16 ? are_rounded<BFloat16>(values)
                                                  : are_rounded<Float16>(values);
  }
  std::vector<std::byte> copies() { return on_host(memory_->parameter_copies()); }

 private:
  static constexpr std::size_t slot = 0;

  std::vector<std::byte> on_host(std::span<std::byte> memory) {
    std::vector<std::byte> bytes(memory.size());
    device_->copy_to_host(bytes.data(), memory.data(), bytes.size(), executor_->stream());
    executor_->stream().synchronize();
    return bytes;
  }

  template <class Half>
  bool are_rounded(std::span<const float> values) {
    const std::vector<std::byte> bytes = copies();
    const auto* const halves = reinterpret_cast<const Half*>(bytes.data());
    bool equal = true;
    for (const auto* slices : {&plan().arena.slices, &plan().arena.frozen}) {
      for (const ArenaSlice& slice : *slices) {
        if (plan().graph.parameters()[slice.parameter].copy == model::no_value) continue;
        for (std::int64_t i = slice.first; i < slice.first + slice.count; ++i) {
          Half wanted;
          narrow(values[static_cast<std::size_t>(i)], wanted);
          equal = equal && halves[i].bits == wanted.bits;
        }
      }
    }
    return equal;
  }

  const model::OptimizerOptions optimizer_;
  std::unique_ptr<kernels::Device> device_ = tests::make_device_under_test(1);
  std::unique_ptr<comm::Communicator> communicator_ = comm::make_communicator({}, {}, *device_);
  std::vector<Plan> plans_;
  std::unique_ptr<ReplicaMemory> memory_;
  std::unique_ptr<Executor> executor_;
};

std::vector<DType> narrow_types() {
  if (tests::make_device_under_test(1)->is_cpu()) return {DType::bf16};
  return {DType::bf16, DType::f16};
}

const model::OptimizerOptions optimizers[] = {
    {.kind = OptimizerKind::sgd, .learning_rate = 0.1},
    {.kind = OptimizerKind::sgd, .learning_rate = 0.1, .momentum = 0.9},
    {.kind = OptimizerKind::adam},
    {.kind = OptimizerKind::adamw, .weight_decay = 0.1, .amsgrad = true},
};

constexpr std::uint64_t steps = 5;

/// Losses and final weights of both ways, which are equal.
void check_same_bits(const std::vector<PlanKey>& micro_batches, const PlanConstraints& constraints,
                     const model::OptimizerOptions& optimizer, bool graphs = false) {
  Replica copies(Way::copies, micro_batches, constraints, optimizer);
  Replica casts(Way::casts, micro_batches, constraints, optimizer);
  REQUIRE(copies.plan().graph.nodes().size() < casts.plan().graph.nodes().size());
  if (graphs) copies.executor().use_graphs();
  const std::string start = sha256_of(copies.weights().parameters());
  std::uint64_t number = 1;
  for (std::uint64_t step = 0; step < steps; ++step) {
    for (const PlanKey& key : micro_batches) {
      CHECK(copies.run(key, number) == casts.run(key, number));
      ++number;
    }
    CHECK(copies.copies_are_rounded());
  }
  CHECK(sha256_of(copies.weights().parameters()) == sha256_of(casts.weights().parameters()));
  CHECK(sha256_of(testing::optimizer_state_of(copies.weights())) ==
        sha256_of(testing::optimizer_state_of(casts.weights())));
  CHECK(sha256_of(copies.weights().parameters()) != start);
}

TEST_CASE("copies that updates write give the bits of casts in every step") {
  for (const DType dtype : narrow_types()) {
    for (const model::OptimizerOptions& optimizer : optimizers) {
      INFO(name_of(dtype) << " " << model::describe(optimizer));
      check_same_bits({whole}, {.compute_dtype = dtype}, optimizer);
    }
  }
}

TEST_CASE("the same with micro-batches, recomputed blocks and frozen parameters, walked and in graphs") {
  const bool graphs = GENERATE(false, true);
  for (const DType dtype : narrow_types()) {
    INFO(name_of(dtype));
    check_same_bits({first, last}, {.compute_dtype = dtype, .freeze = {"conv1.*", "bn.*"}, .recompute = true},
                    optimizers[1], graphs);
  }
}

TEST_CASE("a step that is skipped leaves parameters and copies") {
  for (const DType dtype : narrow_types()) {
    if (dtype != DType::f16) continue;
    Replica replica(Way::copies, {whole}, {.compute_dtype = dtype}, optimizers[2]);
    const std::vector<std::byte> before = replica.copies();
    replica.run(whole, 1, 1e38F);
    CHECK(replica.weights().applied_updates() == 0);
    CHECK((replica.copies() == before));
    replica.run(whole, 1);
    CHECK((replica.copies() != before));
    CHECK(replica.copies_are_rounded());
  }
}

TEST_CASE("whatever sets parameters makes their copies, which evaluation reads") {
  const tests::TemporaryFolder folder;
  for (const DType dtype : narrow_types()) {
    Replica trained(Way::copies, {whole, evaluation}, {.compute_dtype = dtype}, optimizers[2]);
    CHECK(trained.copies_are_rounded());
    for (std::uint64_t step = 0; step < steps; ++step) trained.run(whole, step);
    save_tensors(folder / "weights", trained.weights().parameters());
    Replica loaded(Way::copies, {evaluation}, {.compute_dtype = dtype}, optimizers[2]);
    CHECK(loaded.run(evaluation, 7) != trained.run(evaluation, 7));
    loaded.weights().load(WeightsFile(folder / "weights"));
    CHECK(loaded.copies_are_rounded());
    CHECK(loaded.run(evaluation, 7) == trained.run(evaluation, 7));
  }
}

}  // namespace
}  // namespace lockstep::runtime
