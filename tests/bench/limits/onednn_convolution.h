#pragma once

#include "kernels/conv2d.h"
#include "kernels/op.h"

namespace lockstep::bench {

/// A convolution of a layer or one of its two gradients: which of the three is computed from the others.
struct Convolution {
  enum class Result { y, x, w };
  Result result = Result::y;
  kernels::TensorType x, w, y;
  kernels::Conv2dGeometry geometry;
  bool bias = false;  ///< added to y, or its gradient is computed with that of w
  kernels::Activation activation = kernels::Activation::none;
};

/// Seconds of the fastest implementation that oneDNN itself has for it, direct and Winograd, with every
/// layout of its own choice; infinite when it has none but its reference.
double onednn_seconds(const Convolution& convolution);

}  // namespace lockstep::bench
