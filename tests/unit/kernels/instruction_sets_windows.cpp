// Pools and depthwise convolutions: each channel has a lane of its own, and its sums one order.
#include <type_traits>

#include "kernels/base/half.h"
#include "kernels/depthwise_conv2d.h"
#include "kernels/pool_indices.h"
#include "tests/unit/kernels/instruction_sets.h"

namespace lockstep::tests {
namespace {

using namespace kernels;

using lockstep::narrow;
using lockstep::widen;

void narrow(float value, float& result) {
  result = value;
}

float widen(float value) {
  return value;
}

const void* address_of(const std::vector<float>& values) {
  return values.data();
}

std::vector<float> pools(const Loops& run) {
  std::vector<float> all;
  for (const std::int64_t lanes : {1, 8, 16, 27}) {
    for (const std::int64_t kernel : {2, 3}) {
      const PoolPlane plane{7,
                            5,
                            kernel == 2 ? 3 : 4,
                            kernel == 2 ? 2 : 3,
                            5 * lanes,
                            (kernel == 2 ? 2 : 3) * lanes,
                            lanes,
                            lanes,
                            kernel,
                            kernel,
                            2,
                            2,
                            kernel - 2,
                            kernel - 2};
      const std::vector<float> x = numbers(static_cast<std::size_t>(35 * lanes), 5);
      const std::vector<float> dy = numbers(static_cast<std::size_t>(12 * lanes), 6);
      std::vector<float> y(dy.size());
      std::vector<float> dx(x.size());
      run(MaxPool2d{}, plane, x.data(), y.data());
      append(all, y);
      run(MaxPool2dBackward{.relu_mask = true}, plane, x.data(), dy.data(), dx.data());
      append(all, dx);
      for (const bool relu_mask : {false, true}) {
        std::vector<std::uint8_t> indices(dy.size());
        run(MaxPool2dWithIndices{.relu_mask = relu_mask}, plane, address_of(x), static_cast<void*>(y.data()),
            indices.data());
        append(all, y);
        all.insert(all.end(), indices.begin(), indices.end());
        run(MaxPool2dWithIndicesBackward{}, plane, address_of(dy),
            static_cast<const std::uint8_t*>(indices.data()), static_cast<void*>(dx.data()));
        append(all, dx);
      }
      for (const DType dtype : {DType::f32, DType::bf16}) {
        PoolPlane typed = plane;
        typed.dtype = dtype;
        run(AdaptiveAvgPool2dBackward{}, typed, static_cast<const void*>(dy.data()),
            static_cast<void*>(dx.data()));
        all.insert(all.end(), dx.begin(), dx.begin() + (dtype == DType::f32 ? 35 : 17) * lanes);
      }
      run(AvgPool2d{}, plane, x.data(), y.data());
      append(all, y);
      run(AvgPool2dBackward{}, plane, dy.data(), dx.data());
      append(all, dx);
    }
  }
  return all;
}

std::vector<float> depthwise_weights(const Loops& run) {
  constexpr std::int64_t lanes = 27;
  std::vector<float> all;
  for (const std::int64_t width : {2, 3, 5}) {
    const DepthwiseRow row{.dtype = DType::f32,
                           .of_dw = DType::f32,
                           .of_db = DType::f32,
                           .images = 2,
                           .height = 4,
                           .width = 5,
                           .out_height = 2,
                           .out_width = 3,
                           .x_image = 20 * lanes,
                           .x_row = 5 * lanes,
                           .y_image = 6 * lanes,
                           .y_row = 3 * lanes,
                           .pixel = lanes,
                           .kernel_row = 1,
                           .kernel_w = width,
                           .stride_h = 2,
                           .stride_w = 2,
                           .padding_h = 1,
                           .padding_w = 1,
                           .dilation_h = 1,
                           .dilation_w = 1,
                           .lanes = lanes,
                           .w_tap = lanes,
                           .w_lane = 1,
                           .w_lanes = lanes,
                           .b_lanes = lanes};
    const std::vector<float> x = numbers(40 * lanes, 5);
    const std::vector<float> dy = numbers(12 * lanes, 6);
    std::vector<float> dw(static_cast<std::size_t>(width * lanes));
    std::vector<float> db(lanes);
    run(Conv2dBackwardWeights{}, row, address_of(x), address_of(dy), static_cast<void*>(dw.data()),
        static_cast<void*>(db.data()));
    append(all, dw);
    append(all, db);
  }
  return all;
}

/// 7 x 7 pixels, each with `lanes` channels, under windows of 3 x 3 that reach over the edge.
DepthwisePicture picture_of(std::int64_t lanes, std::int64_t out, DType dtype) {
  return {.dtype = dtype,
          .height = 7,
          .width = 7,
          .out_height = out,
          .out_width = out,
          .x_row = 7 * lanes,
          .y_row = out * lanes,
          .pixel = lanes,
          .kernel_h = 3,
          .kernel_w = 3,
          .w_row = 3 * lanes,
          .w_tap = lanes,
          .w_lane = 1,
          .lanes = lanes,
          .channels = lanes};
}

template <class Element>
std::vector<float> depthwise_forward(const Loops& run) {
  constexpr DType dtype = std::is_same_v<Element, float> ? DType::f32 : DType::bf16;
  const auto elements = [](std::int64_t n, int seed) {
    const std::vector<float> values = numbers(static_cast<std::size_t>(n), seed);
    std::vector<Element> narrowed(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) narrow(values[i], narrowed[i]);
    return narrowed;
  };
  std::vector<float> all;
  for (const std::int64_t lanes : {1, 8, 16, 27}) {
    const std::vector<Element> x = elements(49 * lanes, 5);
    const std::vector<Element> w = elements(9 * lanes, 6);
    const std::vector<Element> b = elements(lanes, 7);
    for (const std::int64_t stride : {1, 2}) {
      const std::int64_t out = stride == 1 ? 5 : 4;
      Conv2d op;
      op.geometry = {
          .stride = {stride, stride}, .padding = {stride, stride}, .dilation = {2, 2}, .groups = lanes};
      for (const Activation activation : {Activation::none, Activation::relu}) {
        op.activation = activation;
        std::vector<Element> y(static_cast<std::size_t>(out * out * lanes));
        const void* const bias = activation == Activation::none ? nullptr : b.data();
        run(op, picture_of(lanes, out, dtype), static_cast<const void*>(x.data()),
            static_cast<const void*>(w.data()), bias, static_cast<void*>(y.data()));
        for (const Element value : y) all.push_back(widen(value));
      }
    }
  }
  return all;
}

}  // namespace

TEST_CASE("all instruction sets pool to the baseline's bits") {
  check_same_bits(pools);
}

TEST_CASE("all instruction sets convolve depthwise to the baseline's bits, forward and for the weights") {
  check_same_bits(depthwise_forward<float>);
  check_same_bits(depthwise_forward<BFloat16>);
  check_same_bits(depthwise_weights);
}

}  // namespace lockstep::tests
