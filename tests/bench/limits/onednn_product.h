#pragma once

#include <string>

#include "kernels/linear.h"

namespace lockstep::bench {

/// y = x w^T of a linear map, or one of its two gradients: which of the three is computed from the others.
struct Product {
  enum class Result { y, x, w };
  Result result = Result::y;
  kernels::MatmulSize size{};
  DType factors = DType::f32;
  DType result_dtype = DType::f32;
  bool bias = false;  ///< added to y, or with w its gradient beside it
  kernels::Activation activation = kernels::Activation::none;

  /// "forward  512x768 * 3072x768, bias": the direction, then x and w.
  std::string str() const;
};

/// Seconds of the fastest implementation that oneDNN itself has for it, as an inner product and as a matrix
/// product, with every layout of its own choice; infinite when it has none but its reference. A matrix
/// product leaves out the gradient of a bias.
double onednn_seconds(const Product& product);

}  // namespace lockstep::bench
