#include "kernels/dropout.h"

#include <cmath>

#include <omp.h>

#include "kernels/base/error.h"
#include "model/define_op.h"
#include "tests/ops/conformance.h"

namespace lockstep::ops {
namespace {

using kernels::Dropout;
using kernels::StepState;
using kernels::test::device;

constexpr StepState first_step{.seed = 7, .global_step = 3};

/// The op on `x` as the state says.
Values drop(const Dropout& op, const Values& x, const StepState& state, DType dtype = DType::f32) {
  const kernels::Layout layout = kernels::Layout::row_major(x.shape);
  const kernels::KernelIo io{{{dtype, x.shape, layout}, {DType::u8, {sizeof(StepState)}, {}}},
                             {{dtype, x.shape, layout}}};
  const auto of_x = kernels::test::pack(x, layout, dtype);
  const auto of_state = kernels::test::upload(std::vector<StepState>{state});
  const auto of_y = device().allocate(of_x->bytes());
  const auto stream = device().make_stream();
  const auto kernel = kernel_for(device(), op, io);
  kernel->bind(std::vector<void*>{of_x->data(), of_state->data(), of_y->data()}, nullptr)->launch(*stream);
  stream->synchronize();
  return kernels::test::unpack(*of_y, x.shape, layout, dtype);
}

/// By the definition, element for element.
Values reference(const Dropout& op, const Values& x, const StepState& state) {
  Values y = x;
  const std::int64_t in_sample = x.shape.elements(1);
  for (std::int64_t i = 0; i < x.shape.elements(); ++i) {
    const std::int64_t sample = state.first_sample + i / in_sample * state.sample_stride;
    const std::int64_t element = i % in_sample;
    const PhiloxCounter words = op.random(state).block(kernels::dropout_block(sample, element / 4));
    double& value = y.data[static_cast<std::size_t>(i)];
    const bool dropped = words[static_cast<std::size_t>(element % 4)] < op.threshold();
    value = dropped ? 0 : static_cast<float>(value) * op.scale();
  }
  return y;
}

Values rows_of(const Values& x, std::int64_t first, std::int64_t stride, std::int64_t count) {
  Values rows{x.shape, {}};
  rows.shape[0] = count;
  const auto in_sample = static_cast<std::ptrdiff_t>(x.shape.elements(1));
  for (std::int64_t row = 0; row < count; ++row) {
    const auto begin = x.data.begin() + (first + row * stride) * in_sample;
    rows.data.insert(rows.data.end(), begin, begin + in_sample);
  }
  return rows;
}

Values ones(const Shape& shape) {
  return {shape, std::vector<double>(static_cast<std::size_t>(shape.elements()), 1)};
}

model::Graph training_graph() {
  model::Graph graph;
  graph.training = true;
  return graph;
}

Tensor input_of(model::Graph& graph) {
  return {graph, graph.add_value("x", {DType::f32, {4, 6}}, model::Role::input)};
}

}  // namespace

TEST_CASE("dropout: the elements that its definition drops, in every dtype") {
  for (const Shape& shape : {Shape{1}, Shape{5, 1}, Shape{3, 7}, Shape{2, 3, 5, 7}, Shape{4, 1031}}) {
    const Dropout op{.p = 0.3, .stream = 12};
    const Values x = kernels::test::random_values(shape, 5);
    const StepState state{.seed = 0x123456789ABCDEF0, .global_step = 77, .first_sample = 9};
    INFO(shape.str());
    CHECK(drop(op, x, state).data == reference(op, x, state).data);
    // Multiples of 1/64 are exact in bf16; the product is rounded to its 8 bits.
    const Values wanted = reference(op, x, state);
    require_close(drop(op, x, state, DType::bf16), wanted, 0x1p-8 * 1.5);
  }
}

TEST_CASE("dropout: steps first, a sample's elements are those that it has steps last") {
  const Dropout op{.p = 0.4, .stream = 5};
  const Dropout of_steps{.p = 0.4, .stream = 5, .steps_first = true};
  for (const std::int64_t run : {1, 5, 8, 67}) {
    constexpr std::int64_t samples = 6;
    constexpr std::int64_t steps = 7;
    const Values x = kernels::test::random_values({samples, steps, run}, 5);
    const auto turned = [&](const Values& values) {
      Values other{{steps, samples, run}, std::vector<double>(values.data.size())};
      for (std::int64_t i = 0; i < values.shape.elements(); ++i) {
        const std::int64_t place = i / run;
        const std::int64_t at = (place % steps * samples + place / steps) * run + i % run;
        other.data[static_cast<std::size_t>(at)] = values.data[static_cast<std::size_t>(i)];
      }
      return other;
    };
    CHECK(drop(of_steps, turned(x), first_step).data == turned(drop(op, x, first_step)).data);
  }
}

TEST_CASE("dropout: N ranks drop what one rank of the whole batch does") {
  const Dropout op{.p = 0.5, .stream = 3};
  const Values x = kernels::test::random_values({12, 5, 13}, 5);
  const Values whole = drop(op, x, first_step);
  for (const std::int64_t ranks : {2, 3, 4}) {
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      StepState state = first_step;
      state.first_sample = rank;
      state.sample_stride = ranks;
      const std::int64_t rows = 12 / ranks;
      CHECK(drop(op, rows_of(x, rank, ranks, rows), state).data == rows_of(whole, rank, ranks, rows).data);
    }
  }
}

TEST_CASE("dropout: the share that is asked for, and the mean is kept") {
  const Shape shape{64, 64};
  for (const double p : {0.0, 0.1, 0.2, 0.5, 0.9}) {
    const Values y = drop({.p = p, .stream = 1}, ones(shape), first_step);
    double mean = 0;
    for (const double value : y.data) mean += value / 4096;
    // Five standard deviations of a mean of 4096 draws.
    CHECK(std::abs(mean - 1) <= 5 * std::sqrt(p / (1 - p) / 4096) + 1e-6);
  }
}

TEST_CASE("dropout: each step, node, seed and sample draws for itself") {
  const Dropout op{.p = 0.5, .stream = 1};
  const Values x = ones({2, 128});
  const Values y = drop(op, x, first_step);
  CHECK(drop(op, x, first_step).data == y.data);
  StepState other = first_step;
  other.global_step = 4;
  CHECK(drop(op, x, other).data != y.data);
  other = first_step;
  other.seed = 8;
  CHECK(drop(op, x, other).data != y.data);
  CHECK(drop({.p = 0.5, .stream = 2}, x, first_step).data != y.data);
  CHECK(rows_of(y, 0, 1, 1).data != rows_of(y, 1, 1, 1).data);
}

TEST_CASE("dropout: the same bits from any team") {
  const Dropout op{.p = 0.25, .stream = 1};
  const Values x = kernels::test::random_values({3, 30001}, 5);
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  const Values alone = drop(op, x, first_step);
  omp_set_num_threads(3);
  CHECK(drop(op, x, first_step).data == alone.data);
  omp_set_num_threads(before);
}

TEST_CASE("dropout: the gradient is dropped by the same mask") {
  model::Graph graph = training_graph();
  const Tensor x = input_of(graph);
  const Tensor y = dropout(dropout(x, 0.25), 0.25);
  REQUIRE(graph.nodes().size() == 2);
  const auto* const first = graph.nodes()[0].op->as<Dropout>();
  const auto* const second = graph.nodes()[1].op->as<Dropout>();
  REQUIRE((first != nullptr && second != nullptr));
  CHECK(first->stream != second->stream);

  const model::ValueId dy = graph.add_value("dy", {DType::f32, {4, 6}}, model::Role::input);
  std::vector<model::ValueId> gradients(graph.value_count(), model::no_value);
  gradients[static_cast<std::size_t>(y.id())] = dy;
  const model::Node node = graph.nodes().back();  // a copy: the graph grows meanwhile
  const std::vector<bool> needed(graph.value_count(), true);
  model::Backward backward(graph, node, gradients, needed);
  node.op->differentiate(backward);
  const model::Node& gradient = graph.nodes().back();
  REQUIRE(gradient.op->as<Dropout>() != nullptr);
  CHECK(gradient.op->as<Dropout>()->stream == second->stream);
  CHECK(gradient.op->as<Dropout>()->p == 0.25);
  CHECK(gradient.inputs == std::vector<model::ValueId>{dy, graph.find(model::Role::step_state)});
}

TEST_CASE("dropout: none in evaluation, nor of nothing; a probability of 1 is refused") {
  model::Graph evaluation;
  const Tensor x = input_of(evaluation);
  CHECK(dropout(x, 0.5).id() == x.id());
  model::Graph training = training_graph();
  const Tensor z = input_of(training);
  CHECK(dropout(z, 0).id() == z.id());
  for (const double p : {-0.1, 1.0, 2.0, std::nan("")}) CHECK_THROWS_AS(dropout(z, p), UsageError);
  CHECK(training.nodes().empty());
}

}  // namespace lockstep::ops
