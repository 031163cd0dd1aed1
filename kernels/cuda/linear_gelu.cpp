#include "kernels/linear_gelu.h"

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/gemm.h"
#include "kernels/linear_gelu_apart.h"

namespace lockstep::kernels {
namespace {

using Epilogue = GemmSpec::Epilogue;

}  // namespace

KernelPtr prepare(Cuda cuda, const LinearGelu& op, const KernelIo& io) {
  using Op = LinearGelu;
  const auto [rows, inputs, outputs] = matmul_size(io.inputs[Op::x].shape, io.inputs[Op::w].shape);
  const auto gemm = prepare_gemm({.m = rows,
                                  .n = outputs,
                                  .k = inputs,
                                  .transpose_b = true,
                                  .epilogue = io.inputs.size() > Op::b ? Epilogue::bias_gelu : Epilogue::gelu,
                                  .keeps_pre = io.outputs.size() > Op::pre,
                                  .dtype = io.inputs[Op::x].dtype,
                                  .result = io.outputs[Op::y].dtype,
                                  .precision = gpu_precision(op.precision)},
                                 cuda.described);
  if (gemm == nullptr) return linear_gelu_apart(cuda, op, io);
  const auto run = [gemm](const Addresses& a, cudaStream_t stream) {
    gemm->launch({.a = a.in<void>(Op::x),
                  .b = a.in<void>(Op::w),
                  .c = a.out<void>(Op::y),
                  .vector = const_cast<void*>(a.in<void>(Op::b)),
                  .pre = a.out<void>(Op::pre)},
                 a.workspace<void>(), stream);
  };
  return cuda_kernel(io, run, gemm->workspace_bytes());
}

KernelPtr prepare(Cuda cuda, const LinearBackwardGelu& op, const KernelIo& io) {
  using Op = LinearBackwardGelu;
  const auto [rows, inputs, outputs] = matmul_size(io.outputs[Op::dpre].shape, io.inputs[Op::w].shape);
  const auto gemm = prepare_gemm({.m = rows,
                                  .n = inputs,
                                  .k = outputs,
                                  .epilogue = Epilogue::gelu_gradient,
                                  .dtype = io.inputs[Op::dy].dtype,
                                  .result = io.outputs[Op::dpre].dtype,
                                  .precision = gpu_precision(op.precision)},
                                 cuda.described);
  if (gemm == nullptr) return linear_backward_gelu_apart(cuda, op, io);
  const auto run = [gemm](const Addresses& a, cudaStream_t stream) {
    gemm->launch({.a = a.in<void>(Op::dy),
                  .b = a.in<void>(Op::w),
                  .c = a.out<void>(Op::dpre),
                  .pre = const_cast<void*>(a.in<void>(Op::pre))},
                 a.workspace<void>(), stream);
  };
  return cuda_kernel(io, run, gemm->workspace_bytes());
}

}  // namespace lockstep::kernels
