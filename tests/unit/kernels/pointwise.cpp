#include "kernels/pointwise.h"

#include <cmath>

#include "kernels/pointwise_functions.h"
#include "tests/unit/kernels/pointwise_reference.h"

using namespace lockstep;
using namespace lockstep::kernels;
using namespace lockstep::kernels::test;

namespace {

const Pointwise relu_op = Pointwise::single(PointwiseFunction::relu);
const Pointwise add_op = Pointwise::single(PointwiseFunction::add);

/// Different in every place.
std::vector<Values> inputs_for(const std::vector<Shape>& shapes) {
  std::vector<Values> inputs;
  for (const Shape& shape : shapes)
    inputs.push_back(random_values(shape, static_cast<unsigned>(inputs.size())));
  return inputs;
}

Layout blocked(const Shape& shape, std::int64_t block) {
  const std::int64_t padded = (shape[1] + block - 1) / block * block;
  const std::int64_t row = block * shape[3];
  const std::int64_t plane = row * shape[2];
  return {
      {shape[0], padded, shape[2], shape[3]}, {plane * (padded / block), plane, row, block}, {{1, block}}};
}

Layout ordered(const Shape& shape, const std::vector<std::size_t>& order) {
  Layout layout = Layout::row_major(shape);
  std::int64_t stride = 1;
  for (std::size_t i = order.size(); i-- > 0; stride *= shape[order[i]]) layout.strides[order[i]] = stride;
  return layout;
}

}  // namespace

TEST_CASE("pointwise: a gradient is the slope of its function") {
  constexpr double h = 1e-6;
  for (const Pointwise& op : all_single_steps()) {
    const Pointwise::Step& step = op.steps[0];
    if (step.part == PointwisePart::value) continue;
    const Pointwise::Step value{.function = step.function};
    const bool of_b = step.part == PointwisePart::gradient_b;
    const bool unary = op.inputs == 2;
    for (const double a : {-4.0, -2.5, -0.75, -0.125, 0.125, 0.5, 2.5, 4.0}) {
      for (const double b : {-1.5, 0.25, 2.0}) {
        const auto at = [&](double shift) {
          return of_b ? pointwise_step(value, a, b + shift, 0) : pointwise_step(value, a + shift, b, 0);
        };
        const double slope = (at(h) - at(-h)) / (2 * h);
        const double of = gradient_takes_output(step.function) ? at(0) : a;
        const double dy = 0.75;
        const double got = unary ? pointwise_step(step, of, dy, 0) : pointwise_step(step, a, b, dy);
        INFO(step.str() << " at " << a << ", " << b);
        CHECK(got == Approx(slope * dy).margin(1e-8));
      }
    }
  }
}

TEST_CASE("pointwise: a function that keeps zeros says so, and no other does") {
  for (const Pointwise& op : all_single_steps()) {
    INFO(op.title());
    CHECK(op.keeps_zero() == (pointwise_step(op.steps[0], 0, 0, 0) == 0));
  }
}

TEST_CASE("pointwise: a function whose gradients are dy itself says so, and no other does") {
  const auto is_dy = [](PointwiseFunction function, PointwisePart part) {
    return pointwise_step({.function = function, .part = part}, 0.5, -2, 0.75) == 0.75;
  };
#define LOCKSTEP_BINARY(Function, name)                             \
  CHECK(kernels::pointwise::Function::passes_gradient ==            \
        (is_dy(PointwiseFunction::name, PointwisePart::gradient) && \
         is_dy(PointwiseFunction::name, PointwisePart::gradient_b)));
#include "kernels/pointwise.def"
}

TEST_CASE("pointwise: every function, value and gradients") {
  const DType dtype = GENERATE(from_range(pointwise_dtypes()));
  for (const Pointwise& op : all_single_steps()) {
    for (const Shape& shape : {Shape{1}, Shape{7, 17}, Shape{2, 3, 5, 5}, Shape{1, many_elements()}}) {
      check_pointwise(op, inputs_for(std::vector<Shape>(op.inputs, shape)), dtype);
    }
  }
}

TEST_CASE("pointwise: operands broadcast as in PyTorch") {
  const DType dtype = GENERATE(from_range(pointwise_dtypes()));
  const std::int64_t third = many_elements() / 3;
  const std::vector<std::vector<Shape>> cases{{{7, 17}, {17}},
                                              {{7, 17}, {7, 1}},
                                              {{7, 17}, {1}},
                                              {{7, 17}, {}},
                                              {{2, 3, 5, 5}, {3, 1, 1}},
                                              {{2, 3, 5, 5}, {2, 1, 5, 1}},
                                              {{3, 1, 1}, {2, 3, 5, 7}},
                                              {{5, 1}, {1, 7}},
                                              {{1, 1, 1}, {3, 1}},
                                              {{2, 1, 1, 5}, {3, 7, 1}},
                                              {{3, 5, 64}, {5, 64}},  // whole packs of a GPU from here on
                                              {{3, 5, 64}, {3, 1, 64}},
                                              {{3, 5, 64}, {5, 1}},
                                              {{3, 5, 64}, {1}},
                                              {{64}, {3, 5, 1}},
                                              {{2, 3, 4, 24}, {3, 1, 24}},
                                              {{2, 3, 4, 24}, {2, 1, 4, 1}},
                                              {{2, 2, 2, 2, 2, 8}, {2, 1, 2, 1, 2, 1}},
                                              {{3, 5, 65}, {5, 65}},  // and none here
                                              {{3, 5, 60}, {5, 1}},
                                              {{5, 7}, {1}},
                                              {{2, 1025}, {1025}},
                                              {{2, 1025}, {2, 1}},
                                              {{3, third}, {third}},
                                              {{3, 1}, {3, third}},
                                              {{2, 2, 2, 2, 2, 2}, {2, 1, 2, 1, 2, 1}}};
  for (const auto& shapes : cases) {
    INFO(shapes[0].str() << " and " << shapes[1].str());
    for (const Pointwise& op : all_single_steps()) {
      std::vector<Shape> operands = shapes;
      operands.resize(op.inputs, broadcast(shapes[0], shapes[1]));
      check_pointwise(op, inputs_for(operands), dtype);
    }
  }
}

TEST_CASE("pointwise: relu keeps a NaN, as PyTorch's does") {
  const auto y = run(relu_op, {{{2}, {std::nan(""), -1}}}, {{2}}, Layouts::row_major)[0];
  CHECK(std::isnan(y.data[0]));
  CHECK(y.data[1] == 0);
}

TEST_CASE("pointwise: a blocked layout stays, and its padding stays zero") {
  const DType dtype = GENERATE(from_range(pointwise_dtypes()));
  const Shape shape{2, 17, 3, 5};
  const Layout blocked{{2, 32, 3, 5}, {480, 240, 80, 16}, {{1, 16}}};
  for (const Pointwise& op : all_single_steps()) {
    const std::vector<Values> inputs = inputs_for(std::vector<Shape>(op.inputs, shape));
    KernelIo io = pointwise_io(op, inputs, dtype);
    io.inputs[0].layout = blocked;
    choose_layouts(device(), op, io);
    INFO(op.title());
    CHECK(*io.outputs[0].layout == (op.keeps_zero() ? blocked : Layout::row_major(shape)));
    const auto got = run_prepared(kernel_for(device(), op, io), io, inputs);
    require_rounded(got[0], test::pointwise(op, inputs)[0], dtype);
  }
}

TEST_CASE("pointwise: channels that lie innermost stay there, broadcast over or not") {
  const Shape shape{2, 3, 5, 7};
  const Layout channels_last = ordered(shape, {0, 2, 3, 1});
  for (const Shape& other : {Shape{3, 1, 1}, Shape{2, 3, 1, 1}, Shape{7}, Shape{2, 1, 5, 1}, shape}) {
    const std::vector<Values> inputs = inputs_for({shape, other});
    KernelIo io = pointwise_io(add_op, inputs, DType::f32);
    io.inputs[0].layout = channels_last;
    choose_layouts(device(), add_op, io);
    CHECK(*io.outputs[0].layout == channels_last);
    INFO(other.str());
    require_rounded(run_prepared(kernel_for(device(), add_op, io), io, inputs)[0],
                    test::pointwise(add_op, inputs)[0], DType::f32);
  }
}

TEST_CASE("pointwise: a blocked layout stays where something is broadcast, if padding stays zero") {
  struct Case {
    Shape full, other;
    bool stays;
  };
  const DType dtype = GENERATE(from_range(pointwise_dtypes()));
  const Case cases[] = {{{2, 17, 3, 5}, {17, 1, 1}, true},
                        {{2, 17, 3, 5}, {2, 17, 1, 1}, true},
                        {{2, 17, 3, 5}, {}, false},
                        {{2, 17, 3, 5}, {2, 1, 3, 5}, false},
                        {{2, 32, 3, 5}, {2, 1, 3, 5}, true},
                        {{2, 32, 3, 5}, {5}, true},
                        {{2, 32, 3, 5}, {2, 32, 1, 1}, true},
                        {{1, 32, 40, 41}, {1, 32, 1, 1}, true},
                        {{3, 600, 3, 5}, {3, 600, 1, 1}, true}};
  for (const auto& [full, other, stays] : cases) {
    for (const Pointwise& op : all_single_steps()) {
      if (op.inputs < 2) continue;
      std::vector<Shape> shapes(op.inputs, full);
      shapes[1] = other;
      const std::vector<Values> inputs = inputs_for(shapes);
      KernelIo io = pointwise_io(op, inputs, dtype);
      io.inputs[0].layout = blocked(full, 16);
      choose_layouts(device(), op, io);
      INFO(op.title() << " of " << full.str() << " and " << other.str());
      CHECK(*io.outputs[0].layout == (stays ? blocked(full, 16) : Layout::row_major(full)));
      const auto got = run_prepared(kernel_for(device(), op, io), io, inputs);
      require_rounded(got[0], test::pointwise(op, inputs)[0], dtype);
    }
  }
}
