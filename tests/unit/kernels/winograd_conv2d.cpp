#include "kernels/cpu/winograd_conv2d.h"

#include <limits>

#include "kernels/cpu/onednn.h"
#include "tests/support/largest_error.h"
#include "tests/unit/kernels/winograd_problem.h"

using namespace lockstep;
using namespace lockstep::kernels;
using namespace lockstep::kernels::test;

namespace {

/// Three times what was seen for 256 channels, 9e-7 of the largest element: f32's 6e-8, some ten times for
/// what the transforms amplify it by (kernels/cpu/simd/winograd_points.h). With the points of the paper and
/// sums of 256 terms it was 7e-6.
constexpr double bound = 3e-6;

void require_within(const Values& got, const Values& wanted, double tolerance) {
  require_close(got, wanted, tolerance * largest(wanted));
}

}  // namespace

TEST_CASE("winograd conv2d computes y and both gradients in channels-last and blocked layouts") {
  if (!on_cpu()) return;
  for (const Case& c : cases) {
    const Problem p = make_problem(c);
    const Conv2dGeometry& g = c.geometry;
    for (const std::int64_t block : {0, 8, 16}) {
      INFO(c.x.str() << " by " << c.w.str() << ", blocks of " << block);
      const KernelIo io = forward_io(p, block);
      REQUIRE(has_winograd(Conv2d{.geometry = g}, io));
      require_within(run_on(device(), Conv2d{.geometry = g, .algorithm = own}, io, {p.x, p.w, p.b})[0], p.y,
                     bound);
      const Conv2d with_relu{.geometry = g, .activation = Activation::relu, .algorithm = own};
      require_within(run_on(device(), with_relu, io, {p.x, p.w, p.b})[0], relu(p.y), bound);
      KernelIo without = io;
      without.inputs.pop_back();
      require_within(run_on(device(), Conv2d{.geometry = g, .algorithm = own}, without, {p.x, p.w})[0],
                     conv2d(p.x, p.w, nullptr, g), bound);
      require_within(run_on(device(), Conv2dBackwardData{.geometry = g, .algorithm = own}, data_io(p, block),
                            {p.dy, p.w})[0],
                     gradient_of_x(p.dy, p.w, c.x, g), bound);
      require_within(run_on(device(), Conv2dBackwardWeights{.geometry = g, .algorithm = own},
                            weights_io(p, block), {p.x, p.dy})[0],
                     gradient_of_w(p.x, p.dy, g), bound);
    }
  }
}

TEST_CASE("winograd conv2d lets a NaN through its relu") {
  if (!on_cpu()) return;
  for (const Case& c : cases) {
    Problem p = make_problem(c);
    std::ranges::fill(p.x.data, std::numeric_limits<double>::quiet_NaN());
    const Conv2d with_relu{.geometry = c.geometry, .activation = Activation::relu, .algorithm = own};
    const Values y = run_on(device(), with_relu, forward_io(p, 8), {p.x, p.w, p.b})[0];
    CHECK(std::ranges::all_of(y.data, [](double value) { return std::isnan(value); }));
  }
}

TEST_CASE("winograd gradients agree with finite differences") {
  if (!on_cpu()) return;
  for (const Case& c : cases) {
    const Problem p = make_problem(c);
    const Function f = [&](const std::vector<Values>& in) {
      return conv2d(in[0], in[1], nullptr, c.geometry);
    };
    const auto dx = run_on(device(), Conv2dBackwardData{.geometry = c.geometry, .algorithm = own},
                           data_io(p, 8), {p.dy, p.w})[0];
    require_gradient(dx, f, {p.x, p.w}, 0, p.dy, bound * largest(dx));
    const auto dw = run_on(device(), Conv2dBackwardWeights{.geometry = c.geometry, .algorithm = own},
                           weights_io(p, 8), {p.x, p.dy})[0];
    require_gradient(dw, f, {p.x, p.w}, 1, p.dy, bound * largest(dw));
  }
}

TEST_CASE("winograd conv2d takes bf16 and rounds once") {
  if (!on_cpu()) return;
  const Case& c = cases[1];
  const Problem p = make_problem(c);  // multiples of 1/64 below 1, whose transforms are exact in bf16 as well
  const auto in_bf16 = [](KernelIo io) {
    for (auto* tensors : {&io.inputs, &io.outputs}) {
      for (TensorDesc& tensor : *tensors) tensor.dtype = DType::bf16;
    }
    return io;
  };
  constexpr double half_unit = 1.0 / 256;
  KernelIo io = in_bf16(forward_io(p, 8));
  const auto run = [](const KernelPtr& kernel, const KernelIo& tensors, const std::vector<Values>& in) {
    return run_prepared(kernel, tensors, in)[0];
  };
  require_within(
      run(kernel_for(device(), Conv2d{.geometry = c.geometry, .algorithm = own}, io), io, {p.x, p.w, p.b}),
      p.y, half_unit);
  io = in_bf16(data_io(p, 8));
  require_within(run(kernel_for(device(), Conv2dBackwardData{.geometry = c.geometry, .algorithm = own}, io),
                     io, {p.dy, p.w}),
                 gradient_of_x(p.dy, p.w, c.x, c.geometry), half_unit);
  const Values dw = gradient_of_w(p.x, p.dy, c.geometry);
  const Conv2dBackwardWeights weights{.geometry = c.geometry, .algorithm = own};
  io = in_bf16(weights_io(p, 8));
  require_within(run(kernel_for(device(), weights, io), io, {p.x, p.dy}), dw, half_unit);
  io.outputs[0].dtype = DType::f32;
  require_within(run(kernel_for(device(), weights, io), io, {p.x, p.dy}), dw, bound);
}

TEST_CASE("winograd conv2d keeps its bound with many channels and tiles") {
  if (!on_cpu()) return;
  const Case c{{8, 256, 14, 14}, {16, 256, 3, 3}, {.padding = {1, 1}}};
  const Problem p = make_problem(c);
  const auto error = [](const Values& got, const Values& wanted) {
    const double relative = tests::largest_error(got.data, wanted.data) / largest(wanted);
    INFO(relative);
    CHECK(relative < bound);
    CHECK(relative > 0);
  };
  error(run_on(device(), Conv2d{.geometry = c.geometry, .algorithm = own}, forward_io(p, 8),
               {p.x, p.w, p.b})[0],
        p.y);
  error(run_on(device(), Conv2dBackwardWeights{.geometry = c.geometry, .algorithm = own}, weights_io(p, 8),
               {p.x, p.dy})[0],
        gradient_of_w(p.x, p.dy, c.geometry));
}

TEST_CASE("winograd conv2d is not given up for bf16 that the processor has no faster products of") {
  if (!on_cpu() || onednn::multiplies_by_amx()) return;
  const Shape pictures{16, 64, 56, 56};
  const Problem p{{pictures, {}}, {{64, 64, 3, 3}, {}}, {{64}, {}}, {pictures, {}}, {pictures, {}}};
  const auto takes_own = [](auto op, const KernelIo& io) {
    op.geometry.padding = {1, 1};
    op.precision = MatmulPrecision::medium;
    const std::size_t chosen = kernel_for(device(), op, io)->workspace_bytes();
    op.algorithm = own;
    CHECK(chosen == kernel_for(device(), op, io)->workspace_bytes());
  };
  takes_own(Conv2d{}, forward_io(p, 16));
  takes_own(Conv2dBackwardData{}, data_io(p, 16));
  takes_own(Conv2dBackwardWeights{}, weights_io(p, 16));
}

TEST_CASE("winograd conv2d gives the same bits on one thread and on three") {
  if (!on_cpu()) return;
  const Case c{{4, 32, 15, 13}, {48, 32, 3, 3}, {.padding = {1, 1}}};
  const Problem p = make_problem(c);
  const auto one = make_cpu_device(1);
  const auto three = make_cpu_device(3);
  const auto same = [&](const auto& op, const KernelIo& io, const std::vector<Values>& in) {
    CHECK(run_on(*one, op, io, in)[0].data == run_on(*three, op, io, in)[0].data);
  };
  same(Conv2d{.geometry = c.geometry, .algorithm = own}, forward_io(p, 8), {p.x, p.w, p.b});
  same(Conv2dBackwardData{.geometry = c.geometry, .algorithm = own}, data_io(p, 8), {p.dy, p.w});
  same(Conv2dBackwardWeights{.geometry = c.geometry, .algorithm = own}, weights_io(p, 8), {p.x, p.dy});
}

TEST_CASE(
    "winograd is for 3x3 without stride, of channels that fill vectors, and of pictures that fill tiles") {
  if (!on_cpu()) return;
  const auto io_of = [](const Case& c) {
    const Conv2d op{.geometry = c.geometry};
    KernelIo io{{{DType::f32, c.x, {}}, {DType::f32, c.w, {}}}, {}};
    io.outputs.push_back({DType::f32, op.infer(types_of(io.inputs))[0].shape, {}});
    io.inputs[0].layout = channels_last(c.x);
    io.outputs[0].layout = channels_last(io.outputs[0].shape);
    return io;
  };
  const auto takes = [&](const Case& c) { return takes_winograd(Conv2d{.geometry = c.geometry}, io_of(c)); };
  const Conv2dGeometry same{.padding = {1, 1}};
  CHECK(takes({{16, 64, 56, 56}, {64, 64, 3, 3}, same}));
  CHECK(takes({{16, 512, 7, 7}, {512, 512, 3, 3}, same}));
  CHECK_FALSE(takes({{16, 64, 56, 56}, {64, 64, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}}}));
  CHECK_FALSE(takes({{16, 64, 56, 56}, {64, 64, 3, 3}, {.padding = {2, 2}, .dilation = {2, 2}}}));
  CHECK_FALSE(takes({{16, 64, 56, 56}, {64, 64, 5, 5}, {.padding = {2, 2}}}));
  CHECK_FALSE(takes({{16, 64, 56, 56}, {64, 32, 3, 3}, {.padding = {1, 1}, .groups = 2}}));
  CHECK_FALSE(takes({{16, 13, 56, 56}, {64, 13, 3, 3}, same}));
  CHECK_FALSE(takes({{16, 64, 56, 56}, {13, 64, 3, 3}, same}));
  CHECK_FALSE(takes({{16, 64, 2, 2}, {64, 64, 3, 3}, same}));
  CHECK_FALSE(takes({{1, 512, 7, 7}, {512, 512, 3, 3}, same}));

  const Case c{{16, 64, 56, 56}, {64, 64, 3, 3}, same};
  CHECK_FALSE(takes_winograd(Conv2d{.geometry = same, .algorithm = Algorithm::direct}, io_of(c)));
  const auto offered = algorithms(device(), Conv2d{.geometry = same}, io_of(c));
  CHECK(std::ranges::count(offered, own) == 1);
}
