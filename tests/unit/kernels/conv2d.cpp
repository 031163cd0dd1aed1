#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/base/half.h"
#include "tests/unit/kernels/conv2d_cases.h"
#include "tests/unit/kernels/reference.h"

using namespace lockstep;
using namespace lockstep::kernels;
using namespace lockstep::kernels::test;

namespace {

/// Sums of k products of numbers up to 1: rounding grows with k at worst. Winograd's transforms cost three
/// more digits of an f32's seven (Lavin and Gray 2015, F(4x4, 3x3)).
double tolerance(double terms, Algorithm algorithm) {
  return (algorithm == Algorithm::direct ? 1e-6 : 2e-5) * terms + 1e-6;
}

struct Problem {
  Values x, w, b, y, dy;
  Function f;
};

Problem make_problem(const ConvolutionCase& c) {
  Problem p{random_values(c.x, 1), random_values(c.w, 2), random_values({c.w[0]}, 3), {}, {}, {}};
  p.f = [g = c.geometry](const std::vector<Values>& in) { return conv2d(in[0], in[1], &in[2], g); };
  p.y = p.f({p.x, p.w, p.b});
  p.dy = random_values(p.y.shape, 4);
  return p;
}

/// `dim` in blocks, which lie innermost.
Layout blocked(const Shape& shape, int dim, std::int64_t block) {
  Layout layout{.padded = shape, .strides = shape, .blocks = {{dim, block}}};
  std::int64_t& extent = layout.padded[static_cast<std::size_t>(dim)];
  extent = (extent + block - 1) / block * block;
  std::int64_t stride = block;
  for (std::size_t axis = shape.rank(); axis-- > 0;) {
    layout.strides[axis] = stride;
    stride *= static_cast<int>(axis) == dim ? extent / block : layout.padded[axis];
  }
  return layout;
}

/// To the nearest numbers of `dtype`, f32 or bf16.
Values rounded(Values values, DType dtype) {
  if (dtype == DType::f32) return values;
  for (double& value : values.data) {
    BFloat16 half;
    narrow(static_cast<float>(value), half);
    value = widen(half);
  }
  return values;
}

}  // namespace

TEST_CASE("conv2d forward, with and without bias and relu") {
  const auto layouts = GENERATE(Layouts::row_major, Layouts::chosen, Layouts::row_major_inputs);
  for (const ConvolutionCase& c : convolution_cases()) {
    const Problem p = make_problem(c);
    const double bound = tolerance(static_cast<double>(c.w.elements(1)), Algorithm::automatic);
    require_close(run(Conv2d{c.geometry}, {p.x, p.w, p.b}, {p.y.shape}, layouts)[0], p.y, bound);
    require_close(run(Conv2d{c.geometry, Activation::relu}, {p.x, p.w, p.b}, {p.y.shape}, layouts)[0],
                  relu(p.y), bound);
    require_close(run(Conv2d{c.geometry}, {p.x, p.w}, {p.y.shape}, layouts)[0],
                  conv2d(p.x, p.w, nullptr, c.geometry), bound);
  }
}

TEST_CASE("conv2d gradients agree with finite differences") {
  const auto layouts = GENERATE(Layouts::row_major, Layouts::chosen, Layouts::row_major_inputs);
  for (const ConvolutionCase& c : convolution_cases()) {
    const Problem p = make_problem(c);
    const double terms = static_cast<double>(c.w.elements()) / static_cast<double>(c.geometry.groups);
    require_gradient(run(Conv2dBackwardData{c.geometry}, {p.dy, p.w}, {c.x}, layouts)[0], p.f,
                     {p.x, p.w, p.b}, 0, p.dy, tolerance(terms, Algorithm::automatic));
    const auto dw = run(Conv2dBackwardWeights{c.geometry}, {p.x, p.dy}, {c.w, {c.w[0]}}, layouts);
    const double pixels = static_cast<double>(p.y.shape.elements()) / static_cast<double>(p.y.shape[1]);
    require_gradient(dw[0], p.f, {p.x, p.w, p.b}, 1, p.dy, tolerance(pixels, Algorithm::automatic));
    require_gradient(dw[1], p.f, {p.x, p.w, p.b}, 2, p.dy, tolerance(pixels, Algorithm::direct));
  }
}

TEST_CASE("conv2d backward computes in the layouts that forward chose") {
  for (const ConvolutionCase& c : convolution_cases()) {
    const Problem p = make_problem(c);
    KernelIo forward = make_io({p.x, p.w, p.b}, {p.y.shape}, Layouts::chosen);
    choose_layouts(device(), Conv2d{c.geometry}, forward);
    KernelIo backward = make_io({p.dy, p.w}, {c.x}, Layouts::chosen);
    backward.inputs[0].layout = forward.outputs[0].layout;
    backward.inputs[1].layout = forward.inputs[1].layout;
    backward.outputs[0].layout = forward.inputs[0].layout;
    choose_layouts(device(), Conv2dBackwardData{c.geometry}, backward);
    CHECK(backward.inputs[1].layout == forward.inputs[1].layout);
    const auto dx =
        run_prepared(kernel_for(device(), Conv2dBackwardData{c.geometry}, backward), backward, {p.dy, p.w});
    require_gradient(dx[0], p.f, {p.x, p.w, p.b}, 0, p.dy,
                     tolerance(static_cast<double>(c.w.elements()), Algorithm::automatic));
  }
}

TEST_CASE("conv2d weight gradients in f32 multiply bf16 factors as those in bf16 do") {
  if (!device().is_cpu()) return;
  const Shape pictures{8, 32, 28, 28};
  const Conv2dBackwardWeights op{.geometry = {.stride = {2, 2}, .padding = {1, 1}}};
  const auto workspace = [&](DType gradient) {
    KernelIo io{{{DType::bf16, pictures, {}}, {DType::bf16, {8, 32, 14, 14}, {}}},
                {{gradient, {32, 32, 3, 3}, {}}}};
    choose_layouts(device(), op, io);
    return static_cast<std::int64_t>(kernel_for(device(), op, io)->workspace_bytes());
  };
  // No pictures that are widened to f32 first.
  CHECK(workspace(DType::f32) - workspace(DType::bf16) < 4 * pictures.elements());
}

// Our own kernel on CPUs. Channels that fill vectors and that do not, windows inside and at the edges.
TEST_CASE("depthwise conv2d: weight gradients in channels-last and blocked layouts") {
  const std::vector<ConvolutionCase> depthwise = {
      {{3, 19, 6, 7}, {19, 1, 3, 2}, {.padding = {1, 1}, .groups = 19}},
      {{2, 40, 7, 9}, {40, 1, 5, 5}, {.stride = {2, 2}, .padding = {2, 2}, .groups = 40}},
      {{2, 16, 2, 2}, {16, 1, 5, 5}, {.padding = {2, 2}, .groups = 16}},
      {{1, 33, 8, 9}, {33, 1, 2, 4}, {.stride = {1, 2}, .padding = {1, 0}, .dilation = {2, 1}, .groups = 33}},
  };
  for (const ConvolutionCase& c : depthwise) {
    const Problem p = make_problem(c);
    const double pixels = static_cast<double>(p.y.shape.elements()) / static_cast<double>(p.y.shape[1]);
    for (const std::int64_t block : {0, 8, 16}) {
      if (block != 0 && !device().is_cpu()) continue;  // its layouts have strides alone
      KernelIo io = make_io({p.x, p.dy}, {c.w, {c.w[0]}}, Layouts::chosen);
      io.inputs[0].layout = block == 0 ? channels_last(c.x) : blocked(c.x, 1, block);
      io.outputs[0].layout = block == 0 ? channels_last(c.w) : blocked(c.w, 0, block);
      choose_layouts(device(), Conv2dBackwardWeights{c.geometry}, io);
      INFO(c.x.str() << " by " << c.w.str() << ", blocks of " << block);
      CHECK(io.inputs[1].layout == (block == 0 ? channels_last(p.y.shape) : blocked(p.y.shape, 1, block)));
      const auto got =
          run_prepared(kernel_for(device(), Conv2dBackwardWeights{c.geometry}, io), io, {p.x, p.dy});
      require_gradient(got[0], p.f, {p.x, p.w, p.b}, 1, p.dy, tolerance(pixels, Algorithm::automatic));
      require_gradient(got[1], p.f, {p.x, p.w, p.b}, 2, p.dy, tolerance(pixels, Algorithm::direct));
    }
  }
}

TEST_CASE("depthwise conv2d: gradients of weights and bias from bf16, each in bf16 or in f32") {
  if (!device().is_cpu()) return;
  const ConvolutionCase c{{2, 43, 7, 9}, {43, 1, 5, 5}, {.stride = {2, 2}, .padding = {2, 2}, .groups = 43}};
  const Problem p = make_problem(c);
  const Conv2dBackwardWeights op{c.geometry};
  const std::int64_t block = GENERATE(0, 8, 16);
  const auto gradients = [&](DType factors, const std::vector<DType>& results) {
    std::vector<Shape> shapes{c.w, {c.w[0]}};
    shapes.resize(results.size());
    KernelIo io = make_io({p.x, p.dy}, shapes, Layouts::chosen);
    for (TensorDesc& input : io.inputs) input.dtype = factors;
    for (std::size_t i = 0; i < results.size(); ++i) io.outputs[i].dtype = results[i];
    io.inputs[0].layout = block == 0 ? channels_last(c.x) : blocked(c.x, 1, block);
    io.outputs[0].layout = block == 0 ? channels_last(c.w) : blocked(c.w, 0, block);
    choose_layouts(device(), op, io);
    return run_prepared(kernel_for(device(), op, io), io, {p.x, p.dy});
  };
  // Sums of up to 40 products of multiples of 1/64 up to 1: exact in f32.
  const std::vector<Values> exact = gradients(DType::f32, {DType::f32, DType::f32});
  for (const DType of_dw : {DType::f32, DType::bf16}) {
    CAPTURE(block, name_of(of_dw));
    require_close(gradients(DType::bf16, {of_dw})[0], rounded(exact[0], of_dw), 0);
    for (const DType of_db : {DType::f32, DType::bf16}) {
      CAPTURE(name_of(of_db));
      const std::vector<Values> both = gradients(DType::bf16, {of_dw, of_db});
      require_close(both[0], rounded(exact[0], of_dw), 0);
      require_close(both[1], rounded(exact[1], of_db), 0);
    }
  }
}

TEST_CASE("conv2d of pictures of one pixel in the layouts that their neighbours have") {
  if (!device().is_cpu()) return;
  const ConvolutionCase c{{6, 32, 1, 1}, {48, 32, 1, 1}, {}};
  const Problem p = make_problem(c);
  for (const std::int64_t block : {0, 8, 16}) {
    const auto pictures = [block](const Shape& shape) {
      return block == 0 ? channels_last(shape) : blocked(shape, 1, block);
    };
    INFO("blocks of " << block);
    KernelIo forward = make_io({p.x, p.w, p.b}, {p.y.shape}, Layouts::chosen);
    forward.inputs[0].layout = pictures(c.x);
    choose_layouts(device(), Conv2d{}, forward);
    CHECK(forward.inputs[0].layout == pictures(c.x));
    CHECK(forward.outputs[0].layout == pictures(p.y.shape));
    const auto y = run_prepared(kernel_for(device(), Conv2d{}, forward), forward, {p.x, p.w, p.b});
    require_close(y[0], p.y, tolerance(32, Algorithm::automatic));

    KernelIo weights = make_io({p.x, p.dy}, {c.w, {c.w[0]}}, Layouts::chosen);
    weights.inputs[0].layout = pictures(c.x);
    weights.inputs[1].layout = pictures(p.y.shape);
    weights.outputs[0].layout = forward.inputs[1].layout;
    choose_layouts(device(), Conv2dBackwardWeights{}, weights);
    const auto dw =
        run_prepared(kernel_for(device(), Conv2dBackwardWeights{}, weights), weights, {p.x, p.dy});
    require_gradient(dw[0], p.f, {p.x, p.w, p.b}, 1, p.dy, tolerance(6, Algorithm::automatic));
    require_gradient(dw[1], p.f, {p.x, p.w, p.b}, 2, p.dy, tolerance(6, Algorithm::direct));
  }
}

// oneDNN generates no code for pictures that are smaller than the filter: our own kernel on CPUs.
TEST_CASE("depthwise conv2d forward in row-major, channels-last and blocked layouts") {
  const std::vector<ConvolutionCase> depthwise = {
      {{3, 32, 1, 1}, {32, 1, 5, 5}, {.padding = {2, 2}, .groups = 32}},
      {{2, 40, 2, 2}, {40, 1, 5, 5}, {.stride = {2, 2}, .padding = {2, 2}, .groups = 40}},
      {{2, 19, 3, 2}, {19, 1, 4, 7}, {.stride = {2, 1}, .padding = {3, 4}, .dilation = {2, 1}, .groups = 19}},
  };
  for (const ConvolutionCase& c : depthwise) {
    const Problem p = make_problem(c);
    const double bound = tolerance(static_cast<double>(c.w.elements(1)), Algorithm::automatic);
    for (const std::int64_t block : {0, 1, 8, 16}) {
      if (block > 1 && !device().is_cpu()) continue;  // its layouts have strides alone
      KernelIo io = make_io({p.x, p.w, p.b}, {p.y.shape}, Layouts::chosen);
      io.inputs[0].layout = block == 0   ? channels_last(c.x)
                            : block == 1 ? Layout::row_major(c.x)
                                         : blocked(c.x, 1, block);
      if (block > 1) io.inputs[1].layout = blocked(c.w, 0, block);
      INFO(c.x.str() << " by " << c.w.str() << ", blocks of " << block);
      for (const Activation activation : {Activation::none, Activation::relu}) {
        KernelIo chosen = io;
        choose_layouts(device(), Conv2d{c.geometry, activation}, chosen);
        const auto got = run_prepared(kernel_for(device(), Conv2d{c.geometry, activation}, chosen), chosen,
                                      {p.x, p.w, p.b});
        require_close(got[0], activation == Activation::relu ? relu(p.y) : p.y, bound);
      }
    }
  }
}

TEST_CASE("every algorithm that is offered computes what the library's own choice does") {
  const ConvolutionCase c =
      GENERATE(ConvolutionCase{{3, 16, 12, 12}, {32, 16, 3, 3}, {.padding = {1, 1}}},
               ConvolutionCase{{1, 6, 7, 7}, {4, 3, 3, 3}, {.padding = {1, 1}, .groups = 2}});
  const Problem p = make_problem(c);
  const auto check = [](auto spec, const std::vector<Values>& inputs, const std::vector<Shape>& outputs,
                        double terms) {
    KernelIo io = make_io(inputs, outputs, Layouts::chosen);
    choose_layouts(device(), spec, io);
    const auto offered = algorithms(device(), spec, io);
    CHECK(offered.size() >= (device().is_cpu() ? 1U : 2U));
    const auto wanted = run_prepared(kernel_for(device(), spec, io), io, inputs);
    for (const Algorithm& algorithm : offered) {
      CAPTURE(algorithm.kind, algorithm.plan);
      spec.algorithm = algorithm;
      const auto got = run_prepared(kernel_for(device(), spec, io), io, inputs);
      for (std::size_t i = 0; i < got.size(); ++i)
        require_close(got[i], wanted[i], tolerance(terms, Algorithm::automatic));
    }
  };
  const double pixels = static_cast<double>(p.y.shape.elements()) / static_cast<double>(p.y.shape[1]);
  for (const bool with_relu : {false, true}) {
    check(Conv2d{c.geometry, with_relu ? Activation::relu : Activation::none}, {p.x, p.w, p.b}, {p.y.shape},
          static_cast<double>(c.w.elements(1)));
  }
  check(Conv2dBackwardData{c.geometry}, {p.dy, p.w}, {c.x}, static_cast<double>(c.w.elements()));
  check(Conv2dBackwardWeights{c.geometry}, {p.x, p.dy}, {c.w, {c.w[0]}}, pixels);
}

TEST_CASE("a plan that the library does not have is refused by its name") {
  if (device().is_cpu()) return;
  KernelIo io =
      make_io(std::vector<Values>(2, random_values({2, 4, 3, 3}, 1)), {{2, 2, 1, 1}}, Layouts::chosen);
  const Conv2d spec{.algorithm = Algorithm("eng99")};
  choose_layouts(device(), spec, io);
  CHECK_THROWS_WITH(kernel_for(device(), spec, io), lockstep::tests::contains("eng99"));
}

TEST_CASE("on a GPU a NaN comes through the relu that a convolution ends in", "[relu]") {
  if (device().is_cpu()) return;  // oneDNN's relu makes 0 of it
  for (const ConvolutionCase& c : convolution_cases()) {
    Problem p = make_problem(c);
    // The whole last picture: every window of it has one.
    const auto pictures = static_cast<std::ptrdiff_t>(c.x[0]);
    const auto picture = static_cast<std::ptrdiff_t>(p.x.data.size()) / pictures;
    std::fill(p.x.data.end() - picture, p.x.data.end(), std::numeric_limits<double>::quiet_NaN());
    for (const bool bias : {false, true}) {
      const std::vector<Values> inputs = bias ? std::vector{p.x, p.w, p.b} : std::vector{p.x, p.w};
      const Values got = run(Conv2d{c.geometry, Activation::relu}, inputs, {p.y.shape}, Layouts::chosen)[0];
      const std::size_t finite =
          got.data.size() / static_cast<std::size_t>(pictures) * static_cast<std::size_t>(pictures - 1);
      for (std::size_t i = 0; i < got.data.size(); ++i) {
        CAPTURE(c.x.str(), c.w.str(), bias, i);
        REQUIRE(std::isnan(got.data[i]) == (i >= finite));
      }
    }
  }
}
