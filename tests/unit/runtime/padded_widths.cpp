// Linear maps of odd widths on a GPU: against the same with parameters that have no room, and what is in it.
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/base/half.h"
#include "tests/support/catch.h"
#include "tests/support/device_under_test.h"
#include "tests/unit/runtime/one_replica.h"

namespace lockstep::runtime {
namespace {

using kernels::Layout;
using model::OptimizerKind;
using model::Tensor;
using testing::classifier;
using testing::OneReplica;
using testing::relative_distance;

constexpr std::int64_t samples = 8;
constexpr std::int64_t steps = 6;
const PlanKey whole{.batch = samples};
const PlanKey first{.role = MicroBatchRole::first, .batch = samples};
const PlanKey last{.role = MicroBatchRole::last, .batch = samples};
const PlanKey evaluation{.mode = Mode::evaluate, .batch = samples};

/// Weights for pictures, weights for rows, and gelu at the end of a product.
Tensor odd_net(Tensor x) {
  x = max_pool2d(conv2d(x, "conv", {.out_channels = 8, .kernel = 3, .padding = 1}));
  x = relu(linear(flatten(x), "fc1", 20));
  return linear(gelu_tanh(linear(x, "fc2", 13)), "head", 10);
}

std::unique_ptr<kernels::Device> gpu() {
  auto device = tests::make_device_under_test(1);
  return device->is_cpu() ? nullptr : std::move(device);
}

/// Of the parameters of `like`, without room.
ParameterLayouts plain_layouts(const Plan& like) {
  ParameterLayouts layouts = parameter_layouts(like.graph);
  for (const model::Parameter& parameter : like.graph.parameters()) {
    const model::Value& value = like.graph.value(parameter.value);
    Layout& layout = layouts.at(value.name);
    layout.padded[0] = value.type.shape[0];
    if (value.type.shape.rank() == 2) layout = Layout::row_major(value.type.shape);
  }
  return layouts;
}

float widened(DType dtype, const std::byte* element) {
  const auto as = [&]<class Element>(Element value) {
    std::memcpy(&value, element, sizeof(value));
    return value;
  };
  if (dtype == DType::bf16) return widen(as(BFloat16{}));
  if (dtype == DType::f16) return widen(as(Float16{}));
  return as(float{});
}

/// Where the elements of a tensor are, among those of its layout.
std::vector<bool> places(const Shape& shape, const Layout& layout) {
  std::vector<bool> used(static_cast<std::size_t>(layout.span()), false);
  for (std::int64_t n = 0; n < shape.elements(); ++n) {
    Shape index = shape;
    std::int64_t rest = n;
    for (std::size_t axis = shape.rank(); axis-- > 0; rest /= shape[axis]) index[axis] = rest % shape[axis];
    used[static_cast<std::size_t>(layout.offset(index))] = true;
  }
  return used;
}

/// Elements of the room of linear maps' parameters, their copies, averages, gradients and optimizer state;
/// all are 0.
std::int64_t zeros_of_room(OneReplica& replica, const model::OptimizerOptions& optimizer) {
  const Plan& plan = replica.plan();
  const ReplicaMemory& memory = replica.memory();
  std::int64_t count = 0;
  for (const ArenaSlice& slice : plan.arena.slices) {
    const model::Value& value = plan.graph.value(plan.graph.parameters()[slice.parameter].value);
    if (value.name.starts_with("conv")) continue;
    const std::vector<bool> used = places(value.type.shape, *value.layout);
    const auto look_at = [&](const void* data, DType dtype) {
      const std::vector<std::byte> bytes = replica.on_host(data, used.size() * size_of(dtype));
      for (std::size_t i = 0; i < used.size(); ++i) {
        if (used[i]) continue;
        INFO(value.name << " at " << i);
        REQUIRE(widened(dtype, bytes.data() + i * size_of(dtype)) == 0);
        ++count;
      }
    };
    look_at(memory.parameter(value.name), DType::f32);
    look_at(memory.gradient(value.name), plan.arena.gradient_dtype);
    if (const void* average = memory.average(value.name)) look_at(average, DType::f32);
    for (std::size_t state = 0; state < model::state_names(optimizer).size(); ++state)
      look_at(memory.optimizer_state(state, value.name), DType::f32);
    if (!memory.parameter_copies().empty()) {
      const DType narrow = plan.arena.copy_dtype;
      look_at(memory.parameter_copies().data() + static_cast<std::size_t>(slice.first) * size_of(narrow),
              narrow);
    }
  }
  return count;
}

/// Of biases 4 + 3 + 6, of fc1 4 rows for 128 numbers, of fc2 16x24 for 13x20, of the head 16x16 for 10x13.
constexpr std::int64_t room = 13 + 4 * 128 + (16 * 24 - 13 * 20) + (16 * 16 - 10 * 13);

const model::OptimizerOptions optimizers[] = {
    {.kind = OptimizerKind::sgd, .learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.1},
    {.kind = OptimizerKind::adamw, .learning_rate = 1e-3, .weight_decay = 0.1, .amsgrad = true},
};

/// Copies to another layout: of pictures, there are no others.
std::ptrdiff_t reorders(const Plan& plan) {
  return std::ranges::count(testing::ops_of(plan.graph), "reorder");
}

/// Trains both, and compares them behind each step.
void check_alike(const std::vector<PlanKey>& micro_batches, PlanConstraints constraints,
                 const model::OptimizerOptions& optimizer, double average_decay = 0) {
  std::vector<PlanKey> keys = micro_batches;
  keys.push_back(evaluation);
  OneReplica padded(classifier(odd_net), keys, constraints, optimizer, average_decay, gpu());
  constraints.parameter_layouts = plain_layouts(padded.plan());
  OneReplica plain(classifier(odd_net), keys, constraints, optimizer, average_decay, gpu());
  const auto run_both = [&](const PlanKey& key, std::int64_t from) {
    const float wanted = plain.run(key, from, samples * static_cast<std::int64_t>(micro_batches.size())).loss;
    const float got = padded.run(key, from, samples * static_cast<std::int64_t>(micro_batches.size())).loss;
    // f32 sums in another order; a half type's factor may then round to the other neighbour.
    CHECK(got == Approx(wanted).epsilon(constraints.compute_dtype == DType::f32 ? 1e-5 : 1e-2));
  };
  const auto copies = static_cast<std::int64_t>(model::state_names(optimizer).size()) + 2 +
                      (average_decay > 0 ? 1 : 0) + (is_half(constraints.compute_dtype) ? 1 : 0);
  for (std::int64_t step = 0; step < steps; ++step) {
    for (const PlanKey& key : micro_batches) run_both(key, step % 2 * samples);
    CHECK(zeros_of_room(padded, optimizer) == copies * room);
  }
  run_both(evaluation, 0);
  CHECK(zeros_of_room(plain, optimizer) == 0);
  for (std::size_t at = 0; at < keys.size(); ++at)
    CHECK(reorders(padded.plan(at)) <= reorders(plain.plan(at)));
  CHECK(relative_distance(padded.replica().parameters(), plain.replica().parameters()) < 1e-2);
  const auto shapes = plain.replica().weight_shapes();
  CHECK(padded.replica().weight_shapes() == shapes);
}

TEST_CASE("odd widths on a GPU: the numbers of a run without room, which is zero behind each update") {
  if (gpu() == nullptr) return;
  const PlanConstraints constraints =
      GENERATE(PlanConstraints{.compute_dtype = DType::bf16}, PlanConstraints{.compute_dtype = DType::f16},
               PlanConstraints{.matmul_precision = kernels::MatmulPrecision::high});
  CAPTURE(name_of(constraints.compute_dtype));
  for (const model::OptimizerOptions& optimizer : optimizers) {
    check_alike({whole}, constraints, optimizer);
    check_alike({whole}, constraints, optimizer, 0.9);
  }
}

TEST_CASE("odd widths on a GPU in micro-batches, whose gradients add up") {
  if (gpu() == nullptr) return;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    PlanConstraints constraints{.matmul_precision = kernels::MatmulPrecision::high, .compute_dtype = dtype};
    check_alike({first, last}, constraints, optimizers[0]);
    constraints.gradient_dtype = DType::bf16;
    check_alike({first, last}, constraints, optimizers[0]);
  }
}

TEST_CASE("IEEE f32 on a GPU has no room") {
  if (gpu() == nullptr) return;
  OneReplica replica(classifier(odd_net), {whole}, {}, optimizers[1], 0, gpu());
  replica.run(whole, 0, samples);
  CHECK(zeros_of_room(replica, optimizers[1]) == 0);
}

}  // namespace
}  // namespace lockstep::runtime
