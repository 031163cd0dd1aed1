#pragma once

#include "kernels/conv2d.h"

namespace lockstep::kernels {

/// How the CPU computes the weight gradients of a depthwise convolution: channel by channel, so `lanes` of
/// them side by side, for one row of the kernel. All strides are in elements.
struct DepthwiseRow {
  static constexpr std::int64_t most_lanes = 16;
  static constexpr std::int64_t widest_kernel = 16;

  DType dtype;         ///< of x and dy
  DType of_dw, of_db;  ///< each may be f32 where x is not
  std::int64_t images, height, width, out_height, out_width;
  std::int64_t x_image, x_row, y_image, y_row, pixel;  ///< x and dy have the same from pixel to pixel
  std::int64_t kernel_row, kernel_w, stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w;
  std::int64_t lanes;
  std::int64_t w_tap, w_lane;  ///< from weight to weight of the row, and from channel to channel
  std::int64_t w_lanes;        ///< channels that dw has room for: the others are padding of x
  std::int64_t b_lanes;        ///< that db has
};

/// How the CPU computes a depthwise convolution: `lanes` channels of one picture. All strides are in
/// elements.
struct DepthwisePicture {
  DType dtype;
  std::int64_t height, width, out_height, out_width;
  std::int64_t x_row, y_row, pixel;  ///< x and y have the same from pixel to pixel
  std::int64_t kernel_h, kernel_w, w_row, w_tap, w_lane;
  std::int64_t lanes;
  std::int64_t
      channels;  ///< of the lanes, those that w and b have: the others are padding, and y's stay zero
};

}  // namespace lockstep::kernels
