#include <array>

#include "tests/unit/kernels/pointwise_reference.h"

using namespace lockstep;
using namespace lockstep::kernels;
using namespace lockstep::kernels::test;

namespace {

using Operand = Pointwise::Operand;
using F = PointwiseFunction;

const Pointwise relu_op = Pointwise::single(F::relu);
const Pointwise add_op = Pointwise::single(F::add);
const Pointwise mul_op = Pointwise::single(F::mul);

Pointwise joined(const Pointwise& first, const Pointwise& second, const std::vector<Operand>& read,
                 bool keeps = false) {
  const std::array<bool, Pointwise::most_outputs> kept{keeps, keeps, keeps};
  const auto both = join(first, second, read, kept);
  REQUIRE(both.has_value());
  return *both;
}

Operand last(const Pointwise& op) {
  return Pointwise::result_of(op.step_count - 1U);
}

/// Six inputs, eight steps, three outputs.
Pointwise longest_chain() {
  Pointwise chain = mul_op;
  const auto then = [&](const Pointwise& step, const std::vector<Operand>& read) {
    chain = joined(chain, step, read);
  };
  then(add_op, {last(chain), new_input});
  then(mul_op, {new_input, last(chain)});
  then(Pointwise::single(F::relu, PointwisePart::gradient), {last(chain), new_input});
  then(add_op, {last(chain), new_input});
  then(mul_op, {last(chain), 0});
  then(relu_op, {last(chain)});
  then(add_op, {last(chain), 5});
  chain.output_count = 3;
  chain.outputs = {0, 4, 7};
  return chain;
}

std::vector<Values> inputs_for(const std::vector<Shape>& shapes) {
  std::vector<Values> inputs;
  for (const Shape& shape : shapes)
    inputs.push_back(random_values(shape, 40 + static_cast<unsigned>(inputs.size())));
  return inputs;
}

}  // namespace

TEST_CASE("pointwise chain: as many operands, steps and outputs as there may be") {
  const DType dtype = GENERATE(from_range(pointwise_dtypes()));
  const Pointwise chain = longest_chain();
  REQUIRE(chain.inputs == Pointwise::most_inputs);
  REQUIRE(chain.step_count == Pointwise::most_steps);
  REQUIRE(chain.output_count == Pointwise::most_outputs);
  for (const Shape& full : {Shape{1}, Shape{2, 3, 5, 7}, Shape{3, 1100}, Shape{1, 70001}}) {
    check_pointwise(chain, inputs_for(std::vector<Shape>(6, full)), dtype);
  }
  check_pointwise(chain, inputs_for({{2, 3, 5, 7}, {3, 1, 1}, {7}, {2, 3, 5, 7}, {5, 1}, {}}), dtype);
  check_pointwise(chain, inputs_for({{1025}, {3, 1}, {1}, {3, 1025}, {1025}, {3, 1025}}), dtype);
}

TEST_CASE("pointwise chain: two steps, whose operands are inputs and the first one's result") {
  const DType dtype = GENERATE(from_range(pointwise_dtypes()));
  const Pointwise relu_backward = Pointwise::single(F::relu, PointwisePart::gradient);
  const Pointwise slope = Pointwise::single(F::mul, PointwisePart::gradient_b);
  const std::vector<Pointwise> chains{
      joined(add_op, relu_backward, {new_input, last(add_op)}),
      joined(add_op, relu_backward, {last(add_op), 1}, true),
      joined(add_op, slope, {last(add_op), new_input, last(add_op)}),
      joined(add_op, slope, {new_input, 0, new_input}, true),
      joined(relu_op, Pointwise::single(F::tanh), {last(relu_op)}, true),
  };
  for (const Pointwise& chain : chains) {
    for (const Shape& full : {Shape{0}, Shape{1}, Shape{3}, Shape{4}, Shape{7}, Shape{8}, Shape{9},
                              Shape{3, 8}, Shape{15, 17}, Shape{1, many_elements() + 7}}) {
      check_pointwise(chain, inputs_for(std::vector<Shape>(chain.inputs, full)), dtype);
    }
    if (chain.inputs < 3) continue;
    for (const auto& [full, other] : std::vector<std::pair<Shape, Shape>>{
             {{5, 3, 16}, {3, 1}}, {{5, 3, 16}, {3, 16}}, {{5, 3, 17}, {3, 17}}, {{5, 3, 12}, {5, 1, 12}}}) {
      std::vector<Shape> shapes(chain.inputs, full);
      shapes[1] = other;
      check_pointwise(chain, inputs_for(shapes), dtype);
    }
  }
}

TEST_CASE("pointwise chain: a step may read any result before it") {
  const DType dtype = GENERATE(from_range(pointwise_dtypes()));
  for (std::size_t between = 0; between + 2 < Pointwise::most_steps; ++between) {
    CAPTURE(between);
    Pointwise chain = mul_op;
    for (std::size_t i = 0; i < between; ++i) {
      const bool adds = i % 2 == 0;
      chain = joined(chain, adds ? add_op : relu_op,
                     adds ? std::vector<Operand>{last(chain), 0} : std::vector<Operand>{last(chain)});
    }
    chain = joined(chain, add_op, {Pointwise::result_of(0), last(chain)});
    chain = joined(chain, mul_op, {last(chain), new_input}, true);
    check_pointwise(chain, inputs_for({{3, 48}, {48}, {3, 1}}), dtype);
    check_pointwise(chain, inputs_for({{3, 49}, {3, 49}, {3, 49}}), dtype);
  }
}

TEST_CASE("pointwise chain: nothing is joined past the limits") {
  const Pointwise chain = longest_chain();
  const std::array<bool, 3> none{};
  const std::array<bool, 3> all{true, true, true};
  const std::vector<Operand> read{last(chain)};
  CHECK_FALSE(join(chain, relu_op, read, none).has_value());  // steps
  Pointwise shorter = chain;
  shorter.step_count = 5;
  CHECK(join(shorter, relu_op, read, none).has_value());
  CHECK_FALSE(join(shorter, relu_op, read, all).has_value());  // outputs
  const std::vector<Operand> and_another{last(shorter), new_input};
  CHECK_FALSE(join(shorter, add_op, and_another, none).has_value());  // inputs
}

TEST_CASE("pointwise chain: the bits of its parts") {
  const Shape full{2, 3, 5, 211};
  const auto inputs = inputs_for({full, {3, 1, 1}, {211}});
  const auto part = [&](const Pointwise& op, const std::vector<Values>& of) {
    return run(op, of, {full}, Layouts::row_major)[0];
  };
  const Values h = part(add_op, {inputs[0], inputs[1]});
  const Values r = part(relu_op, {h});
  const Values y = part(mul_op, {r, inputs[2]});
  Pointwise chain = joined(add_op, relu_op, {last(add_op)}, true);
  chain = joined(chain, mul_op, {last(chain), new_input}, true);
  const auto got = run(chain, inputs, {full, full, full}, Layouts::row_major);
  require_close(got[0], h, 0);
  require_close(got[1], r, 0);
  require_close(got[2], y, 0);
}

TEST_CASE("pointwise chain: output 0 may take the memory of an input that later steps read") {
  const DType dtype = GENERATE(from_range(pointwise_dtypes()));
  const Pointwise chain = joined(relu_op, add_op, {last(relu_op), 0}, true);
  const Shape shape = GENERATE(Shape{5}, Shape{3, 1100}, Shape{3, 1101});  // with elements behind whole packs
  const auto inputs = inputs_for({shape});
  KernelIo io = pointwise_io(chain, inputs, dtype);
  choose_layouts(device(), chain, io);
  const auto kernel = kernel_for(device(), chain, io);
  const auto x = pack(inputs[0], *io.inputs[0].layout, dtype);
  const auto sum = device().allocate(x->bytes());
  const std::array<void*, 3> addresses{x->data(), x->data(), sum->data()};
  const auto stream = device().make_stream();
  kernel->bind(addresses, nullptr)->launch(*stream);
  stream->synchronize();
  const auto wanted = pointwise(chain, inputs);
  require_rounded(unpack(*x, shape, *io.outputs[0].layout, dtype), wanted[0], dtype);
  require_rounded(unpack(*sum, shape, *io.outputs[1].layout, dtype), wanted[1], dtype);
}
