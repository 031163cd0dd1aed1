#include "kernels/linear.h"

#include <algorithm>

#include "kernels/cuda/bias.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/fused_relu.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/handles.h"
#include "kernels/cuda/linear_operands.h"
#include "kernels/layout.h"
#include "kernels/linear_rows.h"
#include "kernels/matmul.h"

namespace lockstep::kernels {
namespace {

using Epilogue = GemmSpec::Epilogue;

Epilogue epilogue_of(Activation activation, bool has_bias) {
  const bool relu = activation == Activation::relu;
  if (has_bias) return relu ? Epilogue::bias_relu : Epilogue::bias;
  return relu ? Epilogue::relu : Epilogue::none;
}

/// y or dy as a matrix of what the product computes of it.
TensorDesc as_matrix(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
  return {dtype, {rows, columns}, Layout::row_major({rows, stride})};
}

/// Without the library's ReLU where it loses a NaN, which a GPU that is only described is not asked.
GemmSpec product_of(Cuda cuda, const Linear& op, const KernelIo& io) {
  const bool has_bias = io.inputs.size() > Linear::b;
  GemmSpec product = linear_gemm(op, io);
  product.epilogue = epilogue_of(op.activation, has_bias);
  if (op.activation == Activation::relu && cuda.described == nullptr &&
      !shared_by_device<FusedRelu>()->keeps_nan(product))
    product.epilogue = epilogue_of(Activation::none, has_bias);
  return product;
}

/// cuBLASLt writes a bias gradient in the type of dw (cublasLt.h, CUBLASLT_EPILOGUE_BGRADB).
bool may_fuse_bias(const GemmSpec& product, const KernelIo& io) {
  return io.outputs[LinearBackwardWeights::db].dtype == product.result;
}

}  // namespace

void choose_layouts(Cuda, const Linear&, KernelIo& io) {
  using Op = Linear;
  TensorDesc* const b = io.inputs.size() > Op::b ? &io.inputs[Op::b] : nullptr;
  choose_linear_layouts(io.inputs[Op::x], io.inputs[Op::w], b, io.outputs[Op::y]);
}

void choose_layouts(Cuda, const LinearBackwardData&, KernelIo& io) {
  using Op = LinearBackwardData;
  choose_backward_data_layouts(io.inputs[Op::dy], io.inputs[Op::w], io.outputs[Op::dx]);
}

void choose_layouts(Cuda, const LinearBackwardWeights&, KernelIo& io) {
  using Op = LinearBackwardWeights;
  TensorDesc* const db = io.outputs.size() > Op::db ? &io.outputs[Op::db] : nullptr;
  choose_backward_weights_layouts(io.inputs[Op::x], io.inputs[Op::dy], io.outputs[Op::dw], db);
}

KernelPtr prepare(Cuda cuda, const Linear& op, const KernelIo& io) {
  const GemmSpec product = product_of(cuda, op, io);
  const bool own_relu = op.activation == Activation::relu &&
                        product.epilogue == epilogue_of(Activation::none, io.inputs.size() > Linear::b);
  const auto gemm = prepare_gemm(product, cuda.described);
  const BiasRelu after(as_matrix(product.result, product.m, product.n, product.stride_c), own_relu);
  const auto run = [gemm, own_relu, after](const Addresses& a, cudaStream_t stream) {
    const GemmOperands operands{a.in<void>(Linear::x), a.in<void>(Linear::w), a.out<void>(Linear::y),
                                const_cast<void*>(a.in<void>(Linear::b))};
    gemm->launch(operands, a.workspace<void>(), stream);
    if (own_relu) after.launch(nullptr, operands.c, stream);
  };
  return cuda_kernel(io, run, gemm->workspace_bytes());
}

KernelPtr prepare(Cuda cuda, const LinearRows& op, const KernelIo& io) {
  return prepare(cuda, Linear{.activation = op.activation, .precision = op.precision}, io);
}

KernelPtr prepare(Cuda cuda, const LinearBackwardData& op, const KernelIo& io) {
  using Op = LinearBackwardData;
  const auto gemm = prepare_gemm(linear_gemm(op, io), cuda.described);
  const auto run = [gemm](const Addresses& a, cudaStream_t stream) {
    gemm->launch({a.in<void>(Op::dy), a.in<void>(Op::w), a.out<void>(Op::dx)}, a.workspace<void>(), stream);
  };
  return cuda_kernel(io, run, gemm->workspace_bytes());
}

KernelPtr prepare(Cuda cuda, const LinearBackwardWeights& op, const KernelIo& io) {
  using Op = LinearBackwardWeights;
  GemmSpec product = linear_gemm(op, io);
  const bool bias = io.outputs.size() > Op::db;
  if (bias && may_fuse_bias(product, io)) {
    product.epilogue = Epilogue::bias_gradient;
    if (const auto gemm = prepare_gemm(product, cuda.described)) {
      const auto run = [gemm](const Addresses& a, cudaStream_t stream) {
        gemm->launch({a.in<void>(Op::dy), a.in<void>(Op::x), a.out<void>(Op::dw), a.out<void>(Op::db)},
                     a.workspace<void>(), stream);
      };
      return cuda_kernel(io, run, gemm->workspace_bytes());
    }
    product.epilogue = Epilogue::none;
  }
  const auto gemm = prepare_gemm(product, cuda.described);
  const BiasGradient bias_gradient(as_matrix(product.dtype, product.k, product.m, product.stride_a),
                                   io.outputs.back().dtype);
  const auto run = [gemm, bias_gradient](const Addresses& a, cudaStream_t stream) {
    gemm->launch({a.in<void>(Op::dy), a.in<void>(Op::x), a.out<void>(Op::dw)}, a.workspace<void>(), stream);
    if (void* const db = a.out<void>(Op::db); db != nullptr) {
      bias_gradient.launch(a.in<void>(Op::dy), db, a.workspace<void>(), stream);
    }
  };
  // One after the other in their stream, so they share the workspace.
  return cuda_kernel(io, run, std::max(gemm->workspace_bytes(), bias ? bias_gradient.workspace_bytes() : 0));
}

std::vector<Algorithm> algorithms(Cuda cuda, const Linear& op, const KernelIo& io) {
  return named_algorithms(gemm_algorithms(product_of(cuda, op, io), cuda.described));
}

std::vector<Algorithm> algorithms(Cuda cuda, const LinearBackwardData& op, const KernelIo& io) {
  return named_algorithms(gemm_algorithms(linear_gemm(op, io), cuda.described));
}

std::vector<Algorithm> algorithms(Cuda cuda, const LinearBackwardWeights& op, const KernelIo& io) {
  GemmSpec product = linear_gemm(op, io);
  if (io.outputs.size() > LinearBackwardWeights::db && may_fuse_bias(product, io)) {
    product.epilogue = Epilogue::bias_gradient;
    if (const auto names = gemm_algorithms(product, cuda.described); !names.empty())
      return named_algorithms(names);
    product.epilogue = Epilogue::none;
  }
  return named_algorithms(gemm_algorithms(product, cuda.described));
}

}  // namespace lockstep::kernels
