#include "kernels/pool2d.h"
#include "tests/ops/conformance.h"

namespace lockstep::ops {
namespace {

/// By PyTorch's definition; every picture has one average per window.
Values averages(const Values& x, std::int64_t out_h, std::int64_t out_w) {
  const std::int64_t height = x.shape[2];
  const std::int64_t width = x.shape[3];
  Values y{{x.shape[0], x.shape[1], out_h, out_w}, {}};
  for (std::int64_t picture = 0; picture < x.shape[0] * x.shape[1]; ++picture) {
    for (std::int64_t i = 0; i < out_h * out_w; ++i) {
      const std::int64_t row = i / out_w;
      const std::int64_t column = i % out_w;
      double sum = 0;
      int count = 0;
      for (std::int64_t r = row * height / out_h; r * out_h < (row + 1) * height; ++r) {
        for (std::int64_t c = column * width / out_w; c * out_w < (column + 1) * width; ++c, ++count) {
          sum += x.data[static_cast<std::size_t>((picture * height + r) * width + c)];
        }
      }
      y.data.push_back(sum / count);
    }
  }
  return y;
}

Conformance pool_to(const std::string& name, std::int64_t out_h, std::int64_t out_w) {
  return {.name = name,
          .layer = [=](const std::vector<Tensor>& in) { return adaptive_avg_pool2d(in[0], out_h, out_w); },
          .reference = [=](const std::vector<Values>& in) { return averages(in[0], out_h, out_w); },
          .operands = {"x"},
          .shapes = {{{1, 1, 1, 1}}, {{2, 3, 5, 7}}, {{2, 17, 7, 4}}, {{3, 70, 3, 2}}},
          .tolerance = 1e-6,  // averages of up to 35 numbers up to 1 in f32
          .dtypes = {DType::f32, DType::bf16, DType::f16}};
}

using kernels::Layout;

Layout blocked(const Shape& shape, std::int64_t block) {
  const std::int64_t padded = (shape[1] + block - 1) / block * block;
  const std::int64_t row = block * shape[3];
  const std::int64_t plane = row * shape[2];
  return {
      {shape[0], padded, shape[2], shape[3]}, {plane * (padded / block), plane, row, block}, {{1, block}}};
}

/// The op on tensors that lie in `layout` of their shapes.
template <class Spec>
Values run_in(const Spec& spec, const Values& input, const Shape& output, Layout (*layout)(const Shape&)) {
  kernels::KernelIo io = kernels::test::make_io({input}, {output}, kernels::test::Layouts::chosen);
  io.inputs[0].layout = layout(input.shape);
  choose_layouts(kernels::test::device(), spec, io);
  CHECK(io.inputs[0].layout == layout(input.shape));
  // Pictures of one pixel are row-major and channels-last at once, so either may follow from them.
  if (input.shape[2] > 1) CHECK(io.outputs[0].layout == layout(output));
  return kernels::test::run_prepared(kernel_for(kernels::test::device(), spec, io), io, {input})[0];
}

}  // namespace

TEST_CASE("adaptive_avg_pool2d to one pixel") {
  conform(pool_to("adaptive_avg_pool2d", 1, 1));
}

// Windows overlap where extents do not divide, and repeat where the output is the greater.
TEST_CASE("adaptive_avg_pool2d to several pixels") {
  conform(pool_to("adaptive_avg_pool2d_3x4", 3, 4));
}

TEST_CASE("adaptive_avg_pool2d in every layout") {
  for (const Shape& shape : {Shape{2, 19, 5, 7}, Shape{1, 80, 3, 3}}) {
    for (const std::int64_t out : {1, 2}) {
      const Values x = kernels::test::random_values(shape, 3);
      const Values y = averages(x, out, out);
      const Values dy = kernels::test::random_values(y.shape, 4);
      const auto reference = [out](const std::vector<Values>& in) { return averages(in[0], out, out); };
      for (Layout (*layout)(const Shape&) :
           {+[](const Shape& s) { return Layout::row_major(s); },
            +[](const Shape& s) { return blocked(s, 8); }, +[](const Shape& s) { return blocked(s, 16); },
            +kernels::channels_last}) {
        INFO(shape.str() << " in " << layout(shape).str() << " to " << out);
        require_close(run_in(kernels::AdaptiveAvgPool2d{{out, out}}, x, y.shape, layout), y, 1e-6);
        require_gradient(run_in(kernels::AdaptiveAvgPool2dBackward{{out, out}}, dy, shape, layout), reference,
                         {x}, 0, dy, 1e-6);
      }
    }
  }
}

}  // namespace lockstep::ops
