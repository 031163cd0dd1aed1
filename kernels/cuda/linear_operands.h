#pragma once

#include "kernels/cuda/gemm.h"
#include "kernels/kernel.h"
#include "kernels/linear.h"

/// How the operands of linear maps lie: row-major, and rows of pictures as their convolutions have them. Room
/// behind rows and columns is the plan's (runtime/plan/passes/pad_widths.cpp). A product computes it, too,
/// where both operands that meet there have it: what they have there is zero, and so is the result.
namespace lockstep::kernels {

/// The product of the op by its algorithm, without an epilogue. UsageError for layouts other than those
/// below, and where room of a result would stay as it is.
GemmSpec linear_gemm(const Linear&, const KernelIo&);
GemmSpec linear_gemm(const LinearBackwardData&, const KernelIo&);
GemmSpec linear_gemm(const LinearBackwardWeights&, const KernelIo&);

/// Operands keep what room they have, results where the product writes all of it. b may be null.
void choose_linear_layouts(TensorDesc& x, TensorDesc& w, TensorDesc* b, TensorDesc& y);
void choose_backward_data_layouts(TensorDesc& dy, TensorDesc& w, TensorDesc& dx);
/// dw has its parameter's layout: x and dy must have the room that it has. db may be null.
void choose_backward_weights_layouts(TensorDesc& x, TensorDesc& dy, TensorDesc& dw, TensorDesc* db);

}  // namespace lockstep::kernels
