#pragma once

#include <array>
#include <string_view>

#include "kernels/layout.h"

/// What linear maps and convolutions have in common.
namespace lockstep::kernels {

/// What a linear map or convolution does to y before it is written: an epilogue, which costs no pass over
/// memory.
enum class Activation { none, relu };

constexpr std::string_view name_of(Activation activation) {
  return activation == Activation::relu ? "relu" : "none";
}

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

/// What convolutions call the same three (torch.backends.cudnn.conv.fp32_precision).
inline constexpr std::array<std::string_view, 3> conv_precision_names{"ieee", "tf32", "bf16"};

constexpr std::string_view conv_name_of(MatmulPrecision precision) {
  return conv_precision_names[static_cast<std::size_t>(precision)];
}

/// The type of weights that a gradient stands for. It may be f32 where the factors are bf16 or f16: their
/// products are summed in f32, and so it is not rounded, but where the kernel's library writes it in their
/// type.
inline TensorType weights_of(TensorType gradient, DType factors) {
  if (gradient.dtype == DType::f32) gradient.dtype = factors;
  return gradient;
}

/// The tensors of a linear map or convolution under their own names, whichever of them are inputs: x is dx in
/// backward data. Valid as long as the KernelIo.
struct MatmulOperands {
  const TensorDesc& x;
  const TensorDesc& w;
  const TensorDesc* b;  ///< null: there is none
  const TensorDesc& y;
};

template <class Spec>
concept MatmulForward = requires {
  Spec::b;
};
template <class Spec>
concept MatmulBackwardWeights = requires {
  Spec::dw;
};

template <class Spec>
MatmulOperands matmul_operands(const Spec&, const KernelIo& io) {
  if constexpr (MatmulForward<Spec>) {
    return {io.inputs[Spec::x], io.inputs[Spec::w],
            io.inputs.size() > Spec::b ? &io.inputs[Spec::b] : nullptr, io.outputs[Spec::y]};
  } else if constexpr (MatmulBackwardWeights<Spec>) {
    return {io.inputs[Spec::x], io.outputs[Spec::dw],
            io.outputs.size() > Spec::db ? &io.outputs[Spec::db] : nullptr, io.inputs[Spec::dy]};
  } else {
    return {io.outputs[Spec::dx], io.inputs[Spec::w], nullptr, io.inputs[Spec::dy]};
  }
}

}  // namespace lockstep::kernels
