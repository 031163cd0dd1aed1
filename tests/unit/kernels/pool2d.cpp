#include "kernels/pool_indices.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "tests/unit/kernels/reference.h"

using namespace lockstep;
using namespace lockstep::kernels;
using namespace lockstep::kernels::test;

namespace {

const std::vector<Shape> shapes = {{1, 1, 4, 4}, {2, 3, 7, 6}, {7, 5, 5, 9}, {2, 17, 8, 8}};
const std::vector<Pool2dGeometry> geometries = {{{2, 2}, {2, 2}, {0, 0}},
                                                {{3, 3}, {2, 2}, {1, 1}},
                                                {{3, 2}, {1, 2}, {0, 1}},
                                                {{1, 1}, {2, 2}, {0, 0}},
                                                {{3, 3}, {1, 1}, {1, 1}}};

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

/// Of an op's second input, where it is not that of the first.
template <class Spec>
constexpr std::optional<DType> second_type;
template <>
constexpr std::optional<DType> second_type<MaxPool2dWithIndicesBackward> = DType::u8;

template <class Spec>
std::vector<Values> run_all_in(const Spec& spec, const std::vector<Values>& inputs,
                               const std::vector<TensorType>& outputs, DType dtype, const Layout& first) {
  KernelIo io = make_io(inputs, std::vector<Shape>(outputs.size()), Layouts::chosen);
  io.inputs[0].dtype = dtype;
  io.inputs[0].layout = first;
  for (std::size_t i = 0; i < outputs.size(); ++i) io.outputs[i] = {outputs[i].dtype, outputs[i].shape, {}};
  if (inputs.size() > 1) io.inputs[1].dtype = second_type<Spec>.value_or(dtype);
  choose_layouts(device(), spec, io);
  CHECK(io.inputs[0].layout == first);
  return run_prepared(kernel_for(device(), spec, io), io, inputs);
}

template <class Spec>
Values run_in(const Spec& spec, const std::vector<Values>& inputs, const Shape& output, const Layout& first) {
  return run_all_in(spec, inputs, {{DType::f32, output}}, DType::f32, first)[0];
}

/// dx by way of the indices that forward keeps.
Values indexed(const Pool2dGeometry& g, bool relu_mask, const Values& x, const Values& y, const Values& dy,
               const Layout& of_x, const Layout& of_y, DType dtype = DType::f32) {
  const auto kept = run_all_in(MaxPool2dWithIndices{g, relu_mask}, {x},
                               {{dtype, y.shape}, {DType::u8, y.shape}}, dtype, of_x);
  require_close(kept[0], y, 0);
  return run_all_in(MaxPool2dWithIndicesBackward{g}, {dy, kept[1]}, {{dtype, x.shape}}, dtype, of_y)[0];
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
        const Layout of_y = lay(dy.shape);
        require_gradient(indexed(g, false, x, y, dy, of_x, of_y), max, {x}, 0, dy, 1e-6);
        require_gradient(indexed(g, true, relu(x), max({relu(x)}), dy, of_x, of_y), after_relu, {x}, 0, dy,
                         1e-6);
        require_gradient(run_in(AvgPool2dBackward{g}, {dy}, shape, lay(dy.shape)), average, {x}, 0, dy, 1e-6);
      }
    }
  }
}

TEST_CASE("max pool gives the gradient to the first of equal elements, and to a NaN") {
  const double nan = std::nan("");
  const double low = -std::numeric_limits<double>::infinity();
  const Values ties{{1, 1, 2, 8}, {1, 1, 0, 2, low, low, nan, 3, 1, 1, 2, nan, low, low, 1, nan}};
  const Values dy{{1, 1, 1, 4}, {3, 5, 7, 9}};
  const Pool2dGeometry halves{{2, 2}, {2, 2}};
  const auto dx = run(MaxPool2dBackward{halves}, {ties, dy}, {ties.shape}, Layouts::row_major)[0];
  CHECK(dx.data == std::vector<double>{3, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 9});
  const Layout rows = Layout::row_major(ties.shape);
  const auto kept = run_all_in(MaxPool2dWithIndices{halves}, {ties},
                               {{DType::f32, dy.shape}, {DType::u8, dy.shape}}, DType::f32, rows)[1];
  CHECK(kept.data == std::vector<double>{0, 3, 0, 3});
  const auto after_relu = run_all_in(MaxPool2dWithIndices{halves, true}, {ties},
                                     {{DType::f32, dy.shape}, {DType::u8, dy.shape}}, DType::f32, rows)[1];
  CHECK(after_relu.data == std::vector<double>{0, 255, 255, 255});
}

TEST_CASE("max pools in half types give their gradients by indices, rounded once an element") {
  std::vector<DType> types{DType::bf16};
  if (!device().is_cpu()) types.push_back(DType::f16);
  const std::int64_t channels = GENERATE(19, 20, 24);
  for (const Pool2dGeometry& g : geometries) {
    const Values x = random_values({2, channels, 9, 7}, 5);  // with ties
    const Values y = max_pool2d(x, g);
    const Values dy = random_values(y.shape, 6);
    for (const DType dtype : types) {
      for (const auto& lay : {+[](const Shape& s) { return blocked(s, 16); }, +channels_last}) {
        const Values exact = indexed(g, false, x, y, dy, lay(x.shape), lay(dy.shape));
        const Values got = indexed(g, false, x, y, dy, lay(x.shape), lay(dy.shape), dtype);
        for (std::size_t i = 0; i < got.data.size(); ++i) {
          const double unit = dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
          REQUIRE(std::abs(got.data[i] - exact.data[i]) <= unit * std::abs(exact.data[i]));
        }
      }
    }
  }
}
