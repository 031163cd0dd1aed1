#pragma once

#include <vector>

#include "kernels/conv2d.h"

namespace lockstep::kernels::test {

/// Odd shapes: channels that fill no vector, groups, strides, dilation.
struct ConvolutionCase {
  Shape x, w;
  Conv2dGeometry geometry;
};

inline std::vector<ConvolutionCase> convolution_cases() {
  return {
      {{2, 3, 9, 7}, {17, 3, 3, 3}, {.padding = {1, 1}}},
      {{1, 1, 8, 8}, {5, 1, 5, 5}, {.padding = {2, 2}}},
      {{7, 5, 6, 5}, {3, 5, 1, 1}, {}},
      {{6, 32, 1, 1}, {48, 32, 1, 1}, {}},
      {{5, 19, 1, 1}, {7, 19, 1, 1}, {.stride = {2, 2}}},
      {{2, 17, 7, 7}, {5, 17, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}}},
      {{2, 32, 6, 6}, {16, 32, 3, 3}, {.padding = {1, 1}}},
      {{1, 6, 7, 7}, {4, 3, 3, 3}, {.padding = {1, 1}, .groups = 2}},
      {{2, 8, 7, 7}, {4, 2, 3, 3}, {.padding = {1, 1}, .groups = 4}},
      {{2, 17, 5, 5}, {17, 1, 3, 3}, {.padding = {1, 1}, .groups = 17}},
      {{1, 32, 5, 5}, {32, 16, 3, 3}, {.padding = {1, 1}, .groups = 2}},
      {{2, 3, 9, 9}, {5, 3, 3, 3}, {.padding = {2, 2}, .dilation = {2, 2}}},
  };
}

}  // namespace lockstep::kernels::test
