#pragma once

#include <string_view>

namespace lockstep::kernels {

/// What a linear map or convolution does to y before it is written: an epilogue, which costs no pass over
/// memory.
enum class Activation { none, relu };

constexpr std::string_view name_of(Activation activation) {
  return activation == Activation::relu ? "relu" : "none";
}

}  // namespace lockstep::kernels
