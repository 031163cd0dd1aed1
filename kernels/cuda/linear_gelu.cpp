#include "kernels/linear_gelu.h"

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/gemm.h"
#include "kernels/linear_gelu_apart.h"

namespace lockstep::kernels {
namespace {

using Epilogue = GemmSpec::Epilogue;

GemmSpec product_of(const LinearGelu& op, const KernelIo& io) {
  using Op = LinearGelu;
  const auto [rows, inputs, outputs] = matmul_size(io.inputs[Op::x].shape, io.inputs[Op::w].shape);
  return {.m = rows,
          .n = outputs,
          .k = inputs,
          .transpose_b = true,
          .epilogue = io.inputs.size() > Op::b ? Epilogue::bias_gelu : Epilogue::gelu,
          .keeps_pre = io.outputs.size() > Op::pre,
          .dtype = io.inputs[Op::x].dtype,
          .result = io.outputs[Op::y].dtype,
          .precision = gpu_precision(op.precision),
          .algorithm = op.algorithm.plan};
}

GemmSpec product_of(const LinearBackwardGelu& op, const KernelIo& io) {
  using Op = LinearBackwardGelu;
  const auto [rows, inputs, outputs] = matmul_size(io.outputs[Op::dpre].shape, io.inputs[Op::w].shape);
  return {.m = rows,
          .n = inputs,
          .k = outputs,
          .epilogue = Epilogue::gelu_gradient,
          .dtype = io.inputs[Op::dy].dtype,
          .result = io.outputs[Op::dpre].dtype,
          .precision = gpu_precision(op.precision),
          .algorithm = op.algorithm.plan};
}

}  // namespace

KernelPtr prepare(Cuda cuda, const LinearGelu& op, const KernelIo& io) {
  using Op = LinearGelu;
  const auto gemm = prepare_gemm(product_of(op, io), cuda.described);
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
  const auto gemm = prepare_gemm(product_of(op, io), cuda.described);
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

std::vector<Algorithm> algorithms(Cuda cuda, const LinearGelu& op, const KernelIo& io) {
  return named_algorithms(gemm_algorithms(product_of(op, io), cuda.described));
}

std::vector<Algorithm> algorithms(Cuda cuda, const LinearBackwardGelu& op, const KernelIo& io) {
  return named_algorithms(gemm_algorithms(product_of(op, io), cuda.described));
}

}  // namespace lockstep::kernels
