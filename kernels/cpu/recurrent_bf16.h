#pragma once

#include "kernels/cpu/onednn.h"
#include "kernels/kernel.h"
#include "kernels/recurrent.h"

namespace lockstep::kernels {

/// Whether states of this size are multiplied by the weights in bf16 (kernels/cpu/recurrent_products.h):
/// where the processor does so faster than in f32. Products by panels (kernels/cpu/recurrent_blocks.h) are
/// f32, whatever the tensors are.
bool rounds_to_bf16(const RecurrentSize& size);

/// For Rnn and Lstm: what a step gives to the next product is rounded to bf16, as torch.autocast does it.
template <class Op>
KernelPtr bf16_recurrent_forward(const onednn::Context& context, const Op& op, const KernelIo& io);

/// For RnnBackward and LstmBackward.
template <class Op>
KernelPtr bf16_recurrent_backward(const onednn::Context& context, const Op& op, const KernelIo& io);

}  // namespace lockstep::kernels
