#include "kernels/pointwise.h"

#include <array>

#include "kernels/reorder.h"
#include "tests/unit/kernels/reference.h"

using namespace lockstep;
using namespace lockstep::kernels;
using namespace lockstep::kernels::test;

namespace {

const Pointwise relu_op = Pointwise::single(PointwiseFunction::relu);
const Pointwise relu_gradient = Pointwise::single(PointwiseFunction::relu, PointwisePart::gradient);
const Pointwise add_op = Pointwise::single(PointwiseFunction::add);

}  // namespace

TEST_CASE("relu, its gradient, and add") {
  for (const Shape& shape : {Shape{1}, Shape{7, 17}, Shape{2, 3, 5, 5}, Shape{70001}}) {
    const Values a = random_values(shape, 1);
    const Values b = random_values(shape, 2);
    const Values y = relu(a);
    require_close(run(relu_op, {a}, {shape}, Layouts::plain)[0], y, 0);
    Values wanted = b;
    for (std::size_t i = 0; i < b.data.size(); ++i) wanted.data[i] = y.data[i] > 0 ? b.data[i] : 0;
    require_close(run(relu_gradient, {y, b}, {shape}, Layouts::plain)[0], wanted, 0);
    for (std::size_t i = 0; i < b.data.size(); ++i) wanted.data[i] = a.data[i] + b.data[i];
    require_close(run(add_op, {a, b}, {shape}, Layouts::plain)[0], wanted, 0);
  }
}

TEST_CASE("relu keeps a NaN, as PyTorch's does") {
  const auto y = run(relu_op, {{{2}, {std::nan(""), -1}}}, {{2}}, Layouts::plain)[0];
  CHECK(std::isnan(y.data[0]));
  CHECK(y.data[1] == 0);
}

TEST_CASE("reorder between every two orders of the dimensions") {
  const Shape shape{2, 5, 3, 4};
  const Values x = random_values(shape, 4);
  const std::vector<std::array<std::size_t, 4>> orders{
      {0, 1, 2, 3}, {0, 2, 3, 1}, {3, 2, 1, 0}, {1, 0, 3, 2}};
  const auto ordered = [&](const std::array<std::size_t, 4>& order) {
    Layout layout = Layout::plain(shape);
    std::int64_t stride = 1;
    for (std::size_t i = 4; i-- > 0; stride *= shape[order[i]]) layout.strides[order[i]] = stride;
    return layout;
  };
  for (const auto& from : orders) {
    for (const auto& to : orders) {
      KernelIo io = make_io({x}, {shape}, Layouts::chosen);
      io.inputs[0].layout = ordered(from);
      io.outputs[0].layout = ordered(to);
      require_close(run_prepared(kernel_for(device(), Reorder{}, io), io, {x})[0], x, 0);
    }
  }
}

TEST_CASE("reorder there and back changes nothing and writes zero padding") {
  const Shape shape{2, 17, 3, 5};
  const Values x = random_values(shape, 3);
  const Layout blocked{{2, 32, 3, 5}, {480, 240, 80, 16}, {{1, 16}}};
  KernelIo there = make_io({x}, {shape}, Layouts::plain);
  there.outputs[0].layout = blocked;
  KernelIo back = make_io({x}, {shape}, Layouts::plain);
  back.inputs[0].layout = blocked;
  const auto packed = run_prepared(kernel_for(device(), Reorder{}, there), there, {x});
  require_close(packed[0], x, 0);
  require_close(run_prepared(kernel_for(device(), Reorder{}, back), back, packed)[0], x, 0);
}
