#include "runtime/performance/roofline.h"

#include <algorithm>
#include <cmath>

#include "kernels/base/error.h"
#include "kernels/classifier.h"
#include "kernels/cuda/library.h"
#include "kernels/layer_norm.h"
#include "runtime/commands/plan_for_gpu.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/unit/runtime/small_plans.h"

namespace lockstep::runtime {
namespace {

const GpuFigures gpu{.memory = 1e12,
                     .f32 = 1e13,
                     .tf32 = 1e14,
                     .half = 2e14,
                     .nvlink = 1e11,
                     .pcie = 1e10,
                     .multiprocessors = 100};

TEST_CASE("roofline: behind its launch a kernel takes as long as the slower of arithmetic and memory") {
  const Efficiency& reached = efficiency_of(WorkKind::product);
  KernelWork work{.kind = WorkKind::product, .unit = MathUnit::half, .flops = 2e14, .bytes = 1e9};
  CHECK(time_of(work, gpu).seconds == Approx(least_kernel_seconds + 1 / reached.of_flops));
  CHECK(time_of(work, gpu).limit == Limit::flops);
  work.bytes = 4e12;
  CHECK(time_of(work, gpu).seconds == Approx(least_kernel_seconds + 4 / reached.of_memory));
  CHECK(time_of(work, gpu).limit == Limit::memory);
  work.launches = 1e7;
  CHECK(time_of(work, gpu).seconds == Approx(1e7 * least_kernel_seconds + 4 / reached.of_memory));
  CHECK(time_of(work, gpu).limit == Limit::launches);
}

TEST_CASE("roofline: units that multiply have rates of their own") {
  KernelWork work{.kind = WorkKind::product, .unit = MathUnit::f32, .flops = 1e16};
  const double f32 = time_of(work, gpu).seconds;
  work.unit = MathUnit::tf32;
  CHECK(time_of(work, gpu).seconds == Approx(f32 / 10));
  work.unit = MathUnit::half;
  CHECK(time_of(work, gpu).seconds == Approx(f32 / 20));
}

TEST_CASE("roofline: a product of few tiles takes as few multiprocessors, the longer its sums the longer") {
  const double whole = 1 / efficiency_of(WorkKind::product).of_flops;
  KernelWork work{.kind = WorkKind::product, .unit = MathUnit::half, .flops = 2e14, .tiles = 8};
  CHECK(time_of(work, gpu).seconds == Approx(whole / 0.08));
  CHECK(time_of(work, gpu).limit == Limit::flops);
  work.tiles = 1000;
  CHECK(time_of(work, gpu).seconds == Approx(whole));
}

TEST_CASE("roofline: a product's tiles are those of what it writes") {
  const auto device = kernels::make_cpu_device(1);
  constexpr std::int64_t outputs = 300;
  const Plan plan = make_plan(testing::classifier([](model::Tensor x) {
                                return linear(relu(linear(flatten(x), "hidden", outputs)), "head", 10);
                              }),
                              {.shape = {3, 20, 20}, .num_classes = 10}, {.key = {.batch = 70}}, *device, {});
  std::vector<double> tiles;
  for (const PredictedStep& step : predict_steps(plan, gpu)) {
    if (step.name.starts_with("linear")) tiles.push_back(step.work.front().tiles);
  }
  const auto in_tiles = [](double rows, double columns) {
    return std::max(std::ceil(rows / f32_tile.longer) * std::ceil(columns / f32_tile.shorter),
                    std::ceil(rows / f32_tile.shorter) * std::ceil(columns / f32_tile.longer));
  };
  // Forward twice, gradients of the head's weights and of its input, of the hidden layer's weights.
  CHECK(tiles == std::vector{in_tiles(70, outputs), in_tiles(70, 10), in_tiles(10, outputs),
                             in_tiles(70, outputs), in_tiles(outputs, 1200)});
}

TEST_CASE("roofline: each factor has a place of its own, and a source") {
  for (std::size_t kind = 0; kind < efficiencies.size(); ++kind) {
    const Efficiency& reached = efficiencies[kind];
    INFO(reached.name);
    CHECK(static_cast<std::size_t>(reached.kind) == kind);
    CHECK((reached.of_flops > 0 && reached.of_flops < 1));
    CHECK((reached.of_memory > 0 && reached.of_memory < 1));
    CHECK_FALSE((reached.flops_source.empty() || reached.memory_source.empty()));
  }
}

TEST_CASE("roofline: a plan's step is the sum of its kernels, convolutions and products as what they are") {
  const auto device = kernels::make_cpu_device(1);
  const Plan plan = testing::plan_of(testing::classifier(testing::small_net), *device);
  const std::vector<PredictedStep> steps = predict_steps(plan, gpu);
  REQUIRE(steps.size() == plan.steps.size());
  double sum = step_overhead_seconds;
  for (std::size_t at = 0; at < steps.size(); ++at) {
    sum += steps[at].time.seconds;
    if (steps[at].name.starts_with("conv2d")) CHECK(steps[at].work.front().kind == WorkKind::convolution);
    if (steps[at].name.starts_with("linear")) CHECK(steps[at].work.front().kind == WorkKind::product);
    if (steps[at].name == "update") CHECK(steps[at].work.front().kind == WorkKind::update);
    const bool launches =
        plan.launch_of(plan.steps[at]) != nullptr && plan.launch_of(plan.steps[at])->kernel != nullptr;
    CHECK(launches == !steps[at].work.empty());
  }
  const GpuStep one = predict_on_gpu(plan, steps, {}, gpu);
  CHECK(one.timeline.step == Approx(sum));
  CHECK(one.timeline.exposed() == 0);
}

TEST_CASE(
    "roofline: layer norm's backward writes sums of chunks and adds them; of long rows it reads dy again") {
  const auto device = kernels::make_cpu_device(1);
  const auto repeats = GENERATE(1, 40);
  const Plan plan = testing::plan_of(testing::classifier([&](model::Tensor x) {
                                       const std::vector<model::Tensor> parts(
                                           static_cast<std::size_t>(repeats), flatten(x));
                                       return linear(layer_norm(concat(parts, 1), "norm"), "head", 10);
                                     }),
                                     *device);
  const std::vector<PredictedStep> steps = predict_steps(plan, gpu);
  const auto norm = std::ranges::find(steps, "layer_norm_backward", &PredictedStep::name);
  REQUIRE(norm != steps.end());
  const Launch& launch = *plan.launch_of(plan.steps[static_cast<std::size_t>(norm - steps.begin())]);
  const bool is_long = launch.io.inputs[1].shape[1] > kernels::LayerNormBackward::gpu_longest_summed;
  REQUIRE(is_long == (repeats == 40));
  const auto sums = static_cast<double>(launch.kernel->workspace_bytes());
  CHECK(sums > 0);
  REQUIRE(norm->work.size() == (is_long ? 3U : 2U));
  CHECK(norm->work[0].bytes == bytes_of(launch.io) + (is_long ? 0 : sums));
  if (is_long) {
    const auto again = static_cast<double>(launch.io.inputs[0].bytes() + launch.io.inputs[1].bytes());
    CHECK(norm->work[1].bytes == again + sums);
  }
  CHECK(norm->work.back().bytes == sums);
}

struct KeepingKernel : kernels::Kernel, kernels::KeepsLogits {
  std::unique_ptr<kernels::BoundKernel> bind(std::span<void* const>, void*) const override { return nullptr; }
};

TEST_CASE("roofline: the fused classifier's logits are read once where its kernel keeps a row") {
  const auto device = kernels::make_cpu_device(1);
  constexpr std::int64_t classes = 8200;
  Plan plan =
      make_plan(testing::classifier([](model::Tensor x) { return linear(flatten(x), "head", classes); }),
                {.shape = {3, 8, 8}, .num_classes = classes}, {.key = {.batch = 4}}, *device, {});
  const auto at = std::ranges::find_if(plan.steps, [&](const Step& step) {
    return step.kind == Step::Kind::launch &&
           plan.graph.nodes()[step.index].op->as<kernels::ClassifierLoss>() != nullptr;
  });
  REQUIRE(at != plan.steps.end());
  const auto pass_bytes = [&] { return work_of(plan, *at)[1].bytes; };
  constexpr double logits = 4.0 * classes * sizeof(float);
  CHECK(pass_bytes() == 3 * logits);
  plan.launches.nodes[at->index].kernel = std::make_unique<KeepingKernel>();
  CHECK(pass_bytes() == 2 * logits);
}

TEST_CASE("roofline: an all-reduce is a ring over NVLink, PCIe without it, and the link between nodes") {
  constexpr double bytes = 1e9;
  CHECK(exchange_seconds({.ranks = 1}, gpu, bytes) == 0);
  const double node = exchange_seconds({.ranks = 4, .ranks_per_node = 4}, gpu, bytes);
  CHECK(node == Approx(exchange_latency_seconds + 1.5 * bytes / (nvlink_efficiency * gpu.nvlink)));
  GpuFigures without = gpu;
  without.nvlink = 0;
  CHECK(exchange_seconds({.ranks = 4, .ranks_per_node = 4}, without, bytes) ==
        Approx(exchange_latency_seconds + 1.5 * bytes / (pcie_exchange_efficiency * gpu.pcie)));
  const Cluster two{.ranks = 8, .ranks_per_node = 4, .link_bytes_per_s = 1e9};
  CHECK(exchange_seconds(two, gpu, bytes) ==
        Approx(node + exchange_latency_seconds + bytes / (link_efficiency * 1e9)));
}

TEST_CASE("roofline: an exchange on a stream of its own hides behind compute, all but what comes last") {
  const auto device = kernels::make_cpu_device(1);
  const Plan plan = testing::plan_with_many_buckets(*device, {.exchange = true, .stream_ordered = true});
  WorkTimes work;
  for (const Step& step : plan.steps) {
    if (step.kind == Step::Kind::launch) work[{step.kind, step.index}] = 1;
  }
  const std::vector<ExchangeTime> exchanges(plan.arena.buckets.size(), {.seconds = 0.25});
  const Timeline hidden = simulate_streams(plan.steps, work, exchanges);
  CHECK(hidden.exchange == 0.25 * static_cast<double>(exchanges.size()));
  CHECK(hidden.compute == static_cast<double>(plan.graph.nodes().size()));
  CHECK(hidden.exposed() >= 0.25);
  CHECK(hidden.exposed() < hidden.exchange);
  const std::vector<ExchangeTime> slow(exchanges.size(), {.seconds = 1000});
  CHECK(simulate_streams(plan.steps, work, slow).step > 1000 * static_cast<double>(slow.size()));
}

TEST_CASE("roofline: a build without cuDNN says that it asks cuDNN") {
  if (kernels::cuda_in_this_build() == "built in") return;
  const Options options = parse_options({"--model", "convnet", "--dataset", "synthetic"});
  ScalingRequest request{.gpu = "h200", .ranks = 1, .ranks_per_node = 1};
  CHECK_THAT(tests::message_of<UsageError>([&] { print_plan_for_gpu(options, request); }),
             tests::contains("configure with -DLOCKSTEP_CUDA=ON"));
}

}  // namespace
}  // namespace lockstep::runtime
