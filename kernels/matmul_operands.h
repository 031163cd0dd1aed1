#pragma once

#include "kernels/conv2d.h"
#include "kernels/linear.h"

namespace lockstep::kernels {

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
