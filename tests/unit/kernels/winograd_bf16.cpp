#include <limits>

#include "kernels/cpu/winograd_conv2d.h"
#include "kernels/winograd_conv2d.h"
#include "tests/support/largest_error.h"
#include "tests/support/skip.h"
#include "tests/unit/kernels/winograd_problem.h"

using namespace lockstep;
using namespace lockstep::kernels;
using namespace lockstep::kernels::test;

namespace {

constexpr double unit = 1.0 / 256;  ///< what rounding to bf16 changes a number by at most, relatively

/// All bits of bf16: significands of 8 bits, 8 magnitudes from 1 down.
Values bf16_values(const Shape& shape, unsigned seed) {
  Values values = random_values(shape, seed);
  const Values magnitudes = random_values(shape, seed + 100);
  for (std::size_t i = 0; i < values.data.size(); ++i) {
    const double significand = 1 + std::abs(values.data[i]) / 2;  // a multiple of 1/128
    const int exponent = static_cast<int>(std::floor(4 * magnitudes.data[i])) - 3;
    values.data[i] = std::copysign(std::ldexp(significand, exponent), values.data[i]);
  }
  return values;
}

Problem bf16_problem(const Case& c) {
  Problem p{bf16_values(c.x, 1), bf16_values(c.w, 2), bf16_values({c.w[0]}, 3), {}, {}};
  p.y = conv2d(p.x, p.w, nullptr, c.geometry);
  p.dy = bf16_values(p.y.shape, 4);
  return p;
}

/// As oneDNN has filters of bf16: inputs in pairs.
Layout paired_filters(const Shape& shape) {
  return {shape, {shape[1] / 16 * 9 * 256, 9 * 256, 3 * 256, 256}, {{1, 8}, {0, 16}, {1, 2}}};
}

KernelIo in_bf16(KernelIo io) {
  for (auto* tensors : {&io.inputs, &io.outputs}) {
    for (TensorDesc& tensor : *tensors) {
      tensor.dtype = DType::bf16;
      if (tensor.shape.rank() == 4 && tensor.layout && tensor.layout->blocks.size() == 2)
        tensor.layout = paired_filters(tensor.shape);
    }
  }
  return io;
}

KernelIo without_bias(KernelIo io) {
  io.inputs.resize(2);
  return io;
}

double rms(const Values& values) {
  double sum = 0;
  for (const double value : values.data) sum += value * value;
  return std::sqrt(sum / static_cast<double>(values.data.size()));
}

/// Each factor of a product of transforms is rounded, by unit / sqrt(3) in the mean or less, and all
/// roundings are independent. For numbers of variance 1, a pixel of y is a sum of 9 products (for each
/// channel), and the products of F(2x2, 3x3) that are summed have together a variance of 25: along an axis 2
/// * (1 + 3/4 + 3/4), the squares of the rows of B and G. Two roundings make that sqrt(25 * 2 / 3) / 3 = 1.4
/// units of y; where the window leaves the picture by a pixel the axis has a variance of 4 for 2, and it
/// is 1.6. Gradients of filters have 4 * 4 for 4 products, 1.6 units, and where tiles leave the picture 3 * 3
/// for 1, of pictures alone, as halves of a single pixel are exact: 1.7. With the rounding of the result
/// itself that is less than 2. The worst of 1e5 numbers is 4.5 times their mean.
void require_rounded(const Values& got, const Values& wanted) {
  Values difference = got;
  double worst = 0;
  for (std::size_t i = 0; i < wanted.data.size(); ++i) {
    difference.data[i] -= wanted.data[i];
    worst = std::max(worst, tests::error_between(got.data[i], wanted.data[i]));
  }
  INFO(rms(difference) / rms(wanted) / unit);
  CHECK(rms(difference) <= 2 * unit * rms(wanted));
  CHECK(worst <= 6 * 2 * unit * rms(wanted));
}

}  // namespace

TEST_CASE("winograd conv2d in bf16 is off by the rounding of its transforms") {
  if (!on_cpu()) return;
  for (const Case& c : cases) {
    const Problem p = bf16_problem(c);
    const Conv2dGeometry& g = c.geometry;
    for (const std::int64_t block : {0, 8, 16}) {
      INFO(c.x.str() << " by " << c.w.str() << ", blocks of " << block);
      require_rounded(run_on(device(), Conv2d{.geometry = g, .algorithm = own},
                             without_bias(in_bf16(forward_io(p, block))), {p.x, p.w})[0],
                      p.y);
      require_rounded(run_on(device(), Conv2dBackwardData{.geometry = g, .algorithm = own},
                             in_bf16(data_io(p, block)), {p.dy, p.w})[0],
                      gradient_of_x(p.dy, p.w, c.x, g));
      KernelIo io = in_bf16(weights_io(p, block));
      for (const DType gradient : {DType::bf16, DType::f32}) {
        io.outputs[0].dtype = gradient;
        require_rounded(
            run_on(device(), Conv2dBackwardWeights{.geometry = g, .algorithm = own}, io, {p.x, p.dy})[0],
            gradient_of_w(p.x, p.dy, g));
      }
    }
  }
}

TEST_CASE("winograd conv2d in bf16 lets a NaN through its relu") {
  if (!on_cpu()) return;
  Problem p = bf16_problem(cases[1]);
  std::ranges::fill(p.x.data, std::numeric_limits<double>::quiet_NaN());
  const Conv2d op{.geometry = cases[1].geometry, .activation = Activation::relu, .algorithm = own};
  const Values y = run_on(device(), op, in_bf16(forward_io(p, 16)), {p.x, p.w, p.b})[0];
  CHECK(std::ranges::all_of(y.data, [](double value) { return std::isnan(value); }));
}

TEST_CASE("winograd conv2d in bf16 gives the same bits on one thread and on three") {
  if (!on_cpu()) return;
  const Case c{{4, 32, 15, 13}, {48, 32, 3, 3}, {.padding = {1, 1}}};
  const Problem p = bf16_problem(c);
  const auto one = make_cpu_device(1);
  const auto three = make_cpu_device(3);
  const auto same = [&](const auto& op, const KernelIo& io, const std::vector<Values>& in) {
    CHECK(run_on(*one, op, io, in)[0].data == run_on(*three, op, io, in)[0].data);
  };
  const Conv2dGeometry& g = c.geometry;
  same(Conv2d{.geometry = g, .algorithm = own}, in_bf16(forward_io(p, 16)), {p.x, p.w, p.b});
  same(Conv2dBackwardData{.geometry = g, .algorithm = own}, in_bf16(data_io(p, 16)), {p.dy, p.w});
  same(Conv2dBackwardWeights{.geometry = g, .algorithm = own}, in_bf16(weights_io(p, 16)), {p.x, p.dy});
}

TEST_CASE("winograd is for bf16 where it saves a quarter") {
  if (!on_cpu()) return;
  if (winograd_factors(DType::bf16) != DType::bf16) return tests::skip("this CPU multiplies no bf16");
  const Conv2d op{.geometry = {.padding = {1, 1}}};
  const auto takes = [&](const Shape& x, const Shape& w) {
    KernelIo io{{{DType::bf16, x, {}}, {DType::bf16, w, {}}}, {{DType::bf16, {x[0], w[0], x[2], x[3]}, {}}}};
    io.inputs[0].layout = channels_last(x);
    io.outputs[0].layout = channels_last(io.outputs[0].shape);
    return takes_winograd(op, io);
  };
  CHECK(takes({16, 64, 56, 56}, {64, 64, 3, 3}));
  CHECK(takes({16, 512, 7, 7}, {512, 512, 3, 3}));
  CHECK_FALSE(takes({16, 32, 28, 28}, {64, 32, 3, 3}));
  CHECK_FALSE(takes({1, 512, 7, 7}, {512, 512, 3, 3}));
}
