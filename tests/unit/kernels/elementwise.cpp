#include "kernels/elementwise.h"

#include "kernels/reorder.h"
#include "tests/unit/kernels/reference.h"

using namespace lockstep;
using namespace lockstep::kernels;
using namespace lockstep::kernels::test;

TEST_CASE("relu, its gradient, and add") {
  for (const Shape& shape : {Shape{1}, Shape{7, 17}, Shape{2, 3, 5, 5}, Shape{70001}}) {
    const Values a = random_values(shape, 1);
    const Values b = random_values(shape, 2);
    const Values y = relu(a);
    require_close(run(ReluForward{}, {a}, {shape}, Layouts::plain)[0], y, 0);
    Values wanted = b;
    for (std::size_t i = 0; i < b.data.size(); ++i) wanted.data[i] = y.data[i] > 0 ? b.data[i] : 0;
    require_close(run(ReluBackward{}, {y, b}, {shape}, Layouts::plain)[0], wanted, 0);
    for (std::size_t i = 0; i < b.data.size(); ++i) wanted.data[i] = a.data[i] + b.data[i];
    require_close(run(Add{}, {a, b}, {shape}, Layouts::plain)[0], wanted, 0);
  }
}

TEST_CASE("relu keeps a NaN, as PyTorch's does") {
  const auto y = run(ReluForward{}, {{{2}, {std::nan(""), -1}}}, {{2}}, Layouts::plain)[0];
  CHECK(std::isnan(y.data[0]));
  CHECK(y.data[1] == 0);
}

TEST_CASE("reorder there and back changes nothing and writes zero padding") {
  const Shape shape{2, 17, 3, 5};
  const Values x = random_values(shape, 3);
  const Layout blocked{{2, 32, 3, 5}, {480, 240, 80, 16}, {{1, 16}}};
  KernelIo there = make_io({x}, {shape}, Layouts::plain);
  there.outputs[0].layout = blocked;
  KernelIo back = make_io({x}, {shape}, Layouts::plain);
  back.inputs[0].layout = blocked;
  const auto packed = run_prepared(prepare(device(), Reorder{}, there), there, {x});
  require_close(packed[0], x, 0);
  require_close(run_prepared(prepare(device(), Reorder{}, back), back, packed)[0], x, 0);
}
