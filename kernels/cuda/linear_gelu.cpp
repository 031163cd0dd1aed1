#include "kernels/linear_gelu.h"

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/linear_operands.h"
#include "kernels/linear_gelu_apart.h"

namespace lockstep::kernels {

KernelPtr prepare(Cuda, const Linear&, const KernelIo&);
KernelPtr prepare(Cuda, const LinearBackwardData&, const KernelIo&);
KernelPtr prepare(Cuda, const Pointwise&, const KernelIo&);

namespace {

using Epilogue = GemmSpec::Epilogue;

/// LinearGelu's product alone: y stands for `pre`, too, which lies alike.
KernelIo linear_of(const KernelIo& io) {
  return {io.inputs, {io.outputs[LinearGelu::y]}};
}
KernelIo backward_data_of(const KernelIo& io) {
  using Op = LinearBackwardGelu;
  return {{io.inputs[Op::dy], io.inputs[Op::w]}, {io.outputs[Op::dpre]}};
}

GemmSpec product_of(const LinearGelu& op, const KernelIo& io) {
  using Op = LinearGelu;
  GemmSpec product = linear_gemm(Linear{.precision = op.precision, .algorithm = op.algorithm}, linear_of(io));
  product.epilogue = io.inputs.size() > Op::b ? Epilogue::bias_gelu : Epilogue::gelu;
  product.keeps_pre = io.outputs.size() > Op::pre;
  return product;
}

GemmSpec product_of(const LinearBackwardGelu& op, const KernelIo& io) {
  GemmSpec product = linear_gemm(LinearBackwardData{.precision = op.precision, .algorithm = op.algorithm},
                                 backward_data_of(io));
  product.epilogue = Epilogue::gelu_gradient;
  return product;
}

}  // namespace

void choose_layouts(Cuda, const LinearGelu&, KernelIo& io) {
  using Op = LinearGelu;
  TensorDesc* const b = io.inputs.size() > Op::b ? &io.inputs[Op::b] : nullptr;
  choose_linear_layouts(io.inputs[Op::x], io.inputs[Op::w], b, io.outputs[Op::y]);
  if (io.outputs.size() > Op::pre) io.outputs[Op::pre].layout = io.outputs[Op::y].layout;
}

void choose_layouts(Cuda, const LinearBackwardGelu&, KernelIo& io) {
  using Op = LinearBackwardGelu;
  choose_backward_data_layouts(io.inputs[Op::dy], io.inputs[Op::w], io.outputs[Op::dpre]);
  io.inputs[Op::pre].layout = io.outputs[Op::dpre].layout;
}

KernelPtr prepare(Cuda cuda, const LinearGelu& op, const KernelIo& io) {
  using Op = LinearGelu;
  if (io.outputs.size() > Op::pre) require_same_layout(io.outputs[Op::y], io.outputs[Op::pre]);
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
  require_same_layout(io.inputs[Op::pre], io.outputs[Op::dpre]);
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
