#pragma once

#include <array>
#include <string_view>

namespace lockstep::kernels {

/// How exactly f32 factors of matrix products and convolutions must be taken; sums are f32 in any case.
/// PyTorch's torch.set_float32_matmul_precision: `highest` is IEEE f32; with `high` a device may round
/// factors to TF32 (10 bits of mantissa), with `medium` to bf16 (7 bits). A device may always be more exact
/// than it is asked to be.
enum class MatmulPrecision { highest, high, medium };

/// In the order of the enumerators.
inline constexpr std::array<std::string_view, 3> matmul_precision_names{"highest", "high", "medium"};

constexpr std::string_view name_of(MatmulPrecision precision) {
  return matmul_precision_names[static_cast<std::size_t>(precision)];
}

}  // namespace lockstep::kernels
