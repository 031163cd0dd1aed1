#include "kernels/reorder.h"

#include <array>

#include "tests/unit/kernels/harness.h"

using namespace lockstep;
using namespace lockstep::kernels;
using namespace lockstep::kernels::test;

TEST_CASE("reorder between every two orders of the dimensions") {
  const Shape shape{2, 5, 3, 4};
  const Values x = random_values(shape, 4);
  const std::vector<std::array<std::size_t, 4>> orders{
      {0, 1, 2, 3}, {0, 2, 3, 1}, {3, 2, 1, 0}, {1, 0, 3, 2}};
  const auto ordered = [&](const std::array<std::size_t, 4>& order) {
    Layout layout = Layout::row_major(shape);
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
  KernelIo there = make_io({x}, {shape}, Layouts::row_major);
  there.outputs[0].layout = blocked;
  KernelIo back = make_io({x}, {shape}, Layouts::row_major);
  back.inputs[0].layout = blocked;
  const auto packed = run_prepared(kernel_for(device(), Reorder{}, there), there, {x});
  require_close(packed[0], x, 0);
  require_close(run_prepared(kernel_for(device(), Reorder{}, back), back, packed)[0], x, 0);
}
