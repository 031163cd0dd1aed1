#include "kernels/conv2d.h"
#include "kernels/linear.h"
#include "tests/unit/kernels/harness.h"

using namespace lockstep;
using namespace lockstep::kernels;
using namespace lockstep::kernels::test;

namespace {

bool on_gpu() {
  return !device().is_cpu();
}

KernelIo open_io(const std::vector<Shape>& inputs, const Shape& output) {
  KernelIo io;
  for (const Shape& shape : inputs) io.inputs.push_back({DType::f32, shape, {}});
  io.outputs.push_back({DType::f32, output, {}});
  return io;
}

}  // namespace

TEST_CASE(
    "on a GPU TF32 convolutions are channels-last, and a linear map after them takes their rows in that "
    "layout") {
  if (!on_gpu()) return;
  KernelIo conv = open_io({{2, 3, 6, 6}, {8, 3, 3, 3}, {8}}, {2, 8, 4, 4});
  choose_layouts(device(), Conv2d{.precision = MatmulPrecision::high}, conv);
  CHECK(conv.inputs[0].layout->str() == "acdb");
  CHECK(conv.inputs[1].layout->str() == "acdb");
  CHECK(conv.outputs[0].layout->str() == "acdb");

  KernelIo linear = open_io({{2, 8, 4, 4}, {5, 8, 4, 4}, {5}}, {2, 5});
  linear.inputs[0].layout = conv.outputs[0].layout;
  choose_layouts(device(), Linear{}, linear);
  CHECK(linear.inputs[0].layout == conv.outputs[0].layout);
  CHECK(linear.inputs[1].layout->strides == conv.outputs[0].layout->strides);
  CHECK(linear.outputs[0].layout->is_row_major({2, 5}));
}

TEST_CASE("on a GPU a row-major picture of one channel is not moved") {
  if (!on_gpu()) return;
  KernelIo io = open_io({{2, 1, 6, 6}, {8, 1, 3, 3}, {8}}, {2, 8, 4, 4});
  io.inputs[0].layout = Layout::row_major(io.inputs[0].shape);
  choose_layouts(device(), Conv2d{.precision = MatmulPrecision::high}, io);
  CHECK(io.inputs[0].layout->is_row_major(io.inputs[0].shape));
  CHECK(io.outputs[0].layout->str() == "acdb");
}

TEST_CASE("on a GPU IEEE convolutions of f32 are row-major: no plan without tensor cores is channels-last") {
  if (!on_gpu()) return;
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  KernelIo io = open_io({{2, 3, 6, 6}, {8, 3, 3, 3}, {8}}, {2, 8, 4, 4});
  for (auto* descs : {&io.inputs, &io.outputs}) {
    for (TensorDesc& desc : *descs) desc.dtype = dtype;
  }
  choose_layouts(device(), Conv2d{}, io);
  const std::string wanted = dtype == DType::f32 ? "row-major" : "acdb";
  CHECK(io.inputs[0].layout->str() == wanted);
  CHECK(io.inputs[1].layout->str() == wanted);
  CHECK(io.outputs[0].layout->str() == wanted);
}

TEST_CASE("on a GPU pictures take the layout of weights that have one") {
  if (!on_gpu()) return;
  KernelIo io = open_io({{2, 3, 6, 6}, {8, 3, 3, 3}, {8}}, {2, 8, 4, 4});
  io.inputs[1].layout = Layout::row_major(io.inputs[1].shape);
  choose_layouts(device(), Conv2d{}, io);
  CHECK(io.inputs[1].layout->is_row_major(io.inputs[1].shape));
  CHECK(io.inputs[0].layout->is_row_major(io.inputs[0].shape));
  CHECK(io.outputs[0].layout->is_row_major(io.outputs[0].shape));
}

TEST_CASE("on a GPU a product whose layouts differ is refused") {
  if (!on_gpu()) return;
  KernelIo io = open_io({{2, 3, 6, 6}, {8, 3, 3, 3}, {8}}, {2, 8, 4, 4});
  choose_layouts(device(), Conv2d{.precision = MatmulPrecision::high}, io);
  io.inputs[0].layout = Layout::row_major(io.inputs[0].shape);
  CHECK_THROWS_WITH(
      kernel_for(device(), Conv2d{}, io),
      "conv2d: x has layout row-major, w acdb, y acdb: all must be channels-last, or all row-major");
  KernelIo linear = open_io({{2, 8, 4, 4}, {5, 8, 4, 4}, {5}}, {2, 5});
  choose_layouts(device(), Linear{}, linear);
  linear.inputs[0].layout = Layout::row_major(linear.inputs[0].shape);
  CHECK_THROWS_WITH(kernel_for(device(), Linear{}, linear),
                    "linear: x has layout row-major, w acdb: they must match, without gaps");
}
