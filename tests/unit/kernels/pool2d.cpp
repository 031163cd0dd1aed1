#include "kernels/pool2d.h"

#include <algorithm>

#include "tests/unit/kernels/reference.h"

using namespace lockstep;
using namespace lockstep::kernels;
using namespace lockstep::kernels::test;

namespace {

const std::vector<Shape> shapes = {{1, 1, 4, 4}, {2, 3, 7, 6}, {7, 5, 5, 9}, {2, 17, 8, 8}};
const std::vector<Pool2dGeometry> geometries = {
    {{2, 2}, {2, 2}, {0, 0}}, {{3, 3}, {2, 2}, {1, 1}}, {{3, 2}, {1, 2}, {0, 1}}, {{1, 1}, {2, 2}, {0, 0}}};

Layout blocked(const Shape& shape, std::int64_t block) {
  const std::int64_t padded = (shape[1] + block - 1) / block * block;
  const std::int64_t row = block * shape[3];
  const std::int64_t plane = row * shape[2];
  return {
      {shape[0], padded, shape[2], shape[3]}, {plane * (padded / block), plane, row, block}, {{1, block}}};
}

/// A permutation of distinct values, so that finite differences meet no tie.
Values distinct_values(const Shape& shape) {
  Values values = random_values(shape, 5);
  std::vector<std::size_t> order(values.data.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return values.data[i]; });
  const double half = static_cast<double>(order.size()) / 2;
  for (std::size_t i = 0; i < order.size(); ++i)
    values.data[order[i]] = (static_cast<double>(i) - half + 0.5) / 64;
  return values;
}

template <class Spec>
Values run_in(const Spec& spec, const std::vector<Values>& inputs, const Shape& output, const Layout& first) {
  KernelIo io = make_io(inputs, {output}, Layouts::chosen);
  io.inputs[0].layout = first;
  choose_layouts(device(), spec, io);
  CHECK(io.inputs[0].layout == first);
  return run_prepared(kernel_for(device(), spec, io), io, inputs)[0];
}

}  // namespace

TEST_CASE("pools and their gradients in every layout") {
  for (const Shape& shape : shapes) {
    for (const Pool2dGeometry& g : geometries) {
      const Values x = distinct_values(shape);
      const Function max = [&g](const std::vector<Values>& in) { return max_pool2d(in[0], g); };
      const Function average = [&g](const std::vector<Values>& in) { return avg_pool2d(in[0], g); };
      const Function after_relu = [&g](const std::vector<Values>& in) { return max_pool2d(relu(in[0]), g); };
      const Values y = max({x});
      const Values dy = random_values(y.shape, 6);
      for (const auto& lay : {+[](const Shape& s) { return Layout::row_major(s); },
                              +[](const Shape& s) { return blocked(s, 8); },
                              +[](const Shape& s) { return blocked(s, 16); }, +channels_last}) {
        const Layout of_x = lay(shape);
        require_close(run_in(MaxPool2d{g}, {x}, y.shape, of_x), y, 0);
        require_close(run_in(AvgPool2d{g}, {x}, y.shape, of_x), average({x}), 1e-5);
        // Sums of up to nine gradients, each exact in f32.
        require_gradient(run_in(MaxPool2dBackward{g}, {x, dy}, shape, of_x), max, {x}, 0, dy, 1e-6);
        require_gradient(run_in(MaxPool2dBackward{g, true}, {relu(x), dy}, shape, of_x), after_relu, {x}, 0,
                         dy, 1e-6);
        require_gradient(run_in(AvgPool2dBackward{g}, {dy}, shape, lay(dy.shape)), average, {x}, 0, dy, 1e-6);
      }
    }
  }
}

TEST_CASE("max pool gives the gradient to the first of equal elements, and to a NaN") {
  const Values ties{{1, 1, 2, 4}, {1, 1, 0, 2, 1, 1, 2, std::nan("")}};
  const Values dy{{1, 1, 1, 2}, {3, 5}};
  const auto dx = run(MaxPool2dBackward{{{2, 2}, {2, 2}}}, {ties, dy}, {ties.shape}, Layouts::row_major)[0];
  CHECK(dx.data == std::vector<double>{3, 0, 0, 0, 0, 0, 0, 5});
}
