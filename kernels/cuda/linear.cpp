#include "kernels/linear.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/base/error.h"
#include "kernels/cuda/bias.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/fused_relu.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/handles.h"
#include "kernels/layout.h"
#include "kernels/linear_rows.h"
#include "kernels/matmul.h"

namespace lockstep::kernels {
namespace {

using Epilogue = GemmSpec::Epilogue;

/// The layout of a tensor with rows laid out as those of `like`.
Layout rows_as(Layout like, std::int64_t rows) {
  like.padded[0] = rows;
  return like;
}

/// Rows of images are as good as flat rows to a matrix product if those of x and w match. Weights that
/// have a layout keep it. Of any other x the last dimension is a row.
void match_rows(TensorDesc& x, TensorDesc& w) {
  if (w.shape.rank() != 4) {
    w.layout = Layout::row_major(w.shape);
    x.layout = Layout::row_major(x.shape);
    return;
  }
  if (!w.layout) w.layout = rows_as(x.layout.value_or(channels_last(x.shape)), w.shape[0]);
  const Layout wanted = rows_as(*w.layout, x.shape[0]);
  if (!x.layout || !has_layout(wanted, x)) x.layout = wanted;
}

void require_row_major(std::string_view op, const TensorDesc& desc) {
  if (desc.layout_or_row_major() == Layout::row_major(desc.shape)) return;
  throw UsageError(fmt::format("{}: {} has layout {}, must be row-major", op, desc.shape.str(),
                               desc.layout_or_row_major().str()));
}

/// UsageError unless all rows are flat.
MatmulSize size_of_flat_rows(std::string_view op, const MatmulOperands& t) {
  require_row_major(op, t.y);
  const Layout rows = t.w.layout_or_row_major();
  const bool flat = rows.blocks.empty() && rows.padded == t.w.shape && rows.span() == t.w.shape.elements();
  const bool alike = t.w.shape.rank() == 4 ? has_layout(rows_as(rows, t.x.shape[0]), t.x)
                                           : has_layout(Layout::row_major(t.x.shape), t.x) &&
                                                 has_layout(Layout::row_major(t.w.shape), t.w);
  if (!flat || !alike) {
    throw UsageError(fmt::format("{}: x has layout {}, w {}: they must match, without gaps", op,
                                 t.x.layout_or_row_major().str(), rows.str()));
  }
  return matmul_size(t.x.shape, t.w.shape);
}

Epilogue epilogue_of(bool relu, bool bias) {
  if (bias) return relu ? Epilogue::bias_relu : Epilogue::bias;
  return relu ? Epilogue::relu : Epilogue::none;
}

/// Without the library's ReLU where it loses a NaN, which a GPU that is only described is not asked.
GemmSpec product_of(Cuda cuda, const Linear& op, const KernelIo& io) {
  const MatmulOperands t = matmul_operands(op, io);
  const auto [rows, inputs, outputs] = size_of_flat_rows(Linear::name, t);
  const bool relu = op.activation == Activation::relu;
  GemmSpec product{.m = rows,
                   .n = outputs,
                   .k = inputs,
                   .transpose_b = true,
                   .epilogue = epilogue_of(relu, t.b != nullptr),
                   .dtype = t.x.dtype,
                   .result = t.y.dtype,
                   .precision = gpu_precision(op.precision),
                   .algorithm = op.algorithm.plan};
  if (relu && cuda.described == nullptr && !shared_by_device<FusedRelu>()->keeps_nan(product))
    product.epilogue = epilogue_of(false, t.b != nullptr);
  return product;
}

GemmSpec product_of(const LinearBackwardData& op, const KernelIo& io) {
  const MatmulOperands t = matmul_operands(op, io);
  const auto [rows, inputs, outputs] = size_of_flat_rows(op.name, t);
  return {.m = rows,
          .n = inputs,
          .k = outputs,
          .dtype = t.y.dtype,
          .result = t.x.dtype,
          .precision = gpu_precision(op.precision),
          .algorithm = op.algorithm.plan};
}

/// Without the gradient of a bias.
GemmSpec product_of(const LinearBackwardWeights& op, const KernelIo& io) {
  const MatmulOperands t = matmul_operands(op, io);
  const auto [rows, inputs, outputs] = size_of_flat_rows(op.name, t);
  return {.m = outputs,
          .n = inputs,
          .k = rows,
          .transpose_a = true,
          .dtype = t.x.dtype,
          .result = t.w.dtype,
          .precision = gpu_precision(op.precision),
          .algorithm = op.algorithm.plan};
}

/// dy (..., O) as the matrix (rows, O).
TensorDesc as_matrix(const TensorDesc& dy, const MatmulSize& size) {
  return {dy.dtype, {size.rows, size.outputs}, {}};
}

}  // namespace

void choose_layouts(Cuda, const Linear&, KernelIo& io) {
  match_rows(io.inputs[Linear::x], io.inputs[Linear::w]);
  if (io.inputs.size() > Linear::b)
    io.inputs[Linear::b].layout = Layout::row_major(io.inputs[Linear::b].shape);
  io.outputs[Linear::y].layout = Layout::row_major(io.outputs[Linear::y].shape);
}

void choose_layouts(Cuda, const LinearBackwardData&, KernelIo& io) {
  using Op = LinearBackwardData;
  match_rows(io.outputs[Op::dx], io.inputs[Op::w]);
  io.inputs[Op::dy].layout = Layout::row_major(io.inputs[Op::dy].shape);
}

void choose_layouts(Cuda, const LinearBackwardWeights&, KernelIo& io) {
  using Op = LinearBackwardWeights;
  match_rows(io.inputs[Op::x], io.outputs[Op::dw]);
  io.inputs[Op::dy].layout = Layout::row_major(io.inputs[Op::dy].shape);
  if (io.outputs.size() > Op::db) io.outputs[Op::db].layout = Layout::row_major(io.outputs[Op::db].shape);
}

KernelPtr prepare(Cuda cuda, const Linear& op, const KernelIo& io) {
  const MatmulOperands t = matmul_operands(op, io);
  const GemmSpec product = product_of(cuda, op, io);
  const bool own_relu =
      op.activation == Activation::relu && product.epilogue == epilogue_of(false, t.b != nullptr);
  const auto gemm = prepare_gemm(product, cuda.described);
  const BiasRelu after(as_matrix(t.y, size_of_flat_rows(Linear::name, t)), own_relu);
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
  const auto gemm = prepare_gemm(product_of(op, io), cuda.described);
  const auto run = [gemm](const Addresses& a, cudaStream_t stream) {
    gemm->launch({a.in<void>(Op::dy), a.in<void>(Op::w), a.out<void>(Op::dx)}, a.workspace<void>(), stream);
  };
  return cuda_kernel(io, run, gemm->workspace_bytes());
}

KernelPtr prepare(Cuda cuda, const LinearBackwardWeights& op, const KernelIo& io) {
  using Op = LinearBackwardWeights;
  const MatmulOperands t = matmul_operands(op, io);
  GemmSpec product = product_of(op, io);
  const bool bias = t.b != nullptr;
  if (bias) {
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
  const BiasGradient bias_gradient(as_matrix(t.y, size_of_flat_rows(Op::name, t)),
                                   bias ? t.b->dtype : t.w.dtype);
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
  return named_algorithms(gemm_algorithms(product_of(op, io), cuda.described));
}

std::vector<Algorithm> algorithms(Cuda cuda, const LinearBackwardWeights& op, const KernelIo& io) {
  GemmSpec product = product_of(op, io);
  if (io.outputs.size() > LinearBackwardWeights::db) {
    product.epilogue = Epilogue::bias_gradient;
    if (const auto names = gemm_algorithms(product, cuda.described); !names.empty())
      return named_algorithms(names);
    product.epilogue = Epilogue::none;
  }
  return named_algorithms(gemm_algorithms(product, cuda.described));
}

}  // namespace lockstep::kernels
