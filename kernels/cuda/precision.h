#pragma once

#include "kernels/matmul.h"

namespace lockstep::kernels {

/// How the GPU multiplies f32. `tf32` lets it round the factors to ten bits of mantissa, for tensor cores;
/// sums are f32.
enum class Precision { ieee, tf32 };

/// `medium` is TF32 too, as in PyTorch: it has the exponents of bf16 and three bits of mantissa more.
constexpr Precision gpu_precision(MatmulPrecision precision) {
  return precision == MatmulPrecision::highest ? Precision::ieee : Precision::tf32;
}

}  // namespace lockstep::kernels
