#include "kernels/linear.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/base/error.h"
#include "kernels/check.h"
#include "kernels/cuda/bias_gradient.h"
#include "kernels/cuda/channels_last.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/gemm.h"
#include "kernels/product_tensors.h"

namespace lockstep::kernels {
namespace {

using Epilogue = GemmSpec::Epilogue;

/// The layout of a tensor whose rows lie as those of `like` do.
Layout rows_as(Layout like, std::int64_t rows) {
  like.padded[0] = rows;
  return like;
}

/// Rows of pictures are as good as flat rows to a matrix product if those of x and w lie alike. Weights that
/// have a layout keep it.
void lie_alike(TensorDesc& x, TensorDesc& w) {
  if (!w.layout) {
    const Layout free = x.shape.rank() == 4 ? channels_last(x.shape) : Layout::plain(x.shape);
    w.layout = rows_as(x.layout.value_or(free), w.shape[0]);
  }
  const Layout wanted = rows_as(*w.layout, x.shape[0]);
  if (!x.layout || !lies_as(wanted, x)) x.layout = wanted;
}

struct Extents {
  std::int64_t rows, inputs, outputs;
};

/// What `tensors_of` has not asked: the types, and that all rows are flat.
Extents check_rows(std::string_view kernel, const ProductTensors& t) {
  check_type(kernel, "x", t.x, DType::f32);
  check_type(kernel, "w", t.w, DType::f32);
  check_type(kernel, "y", t.y, DType::f32);
  check_plain(kernel, "y", t.y);
  const Layout rows = t.w.layout_or_plain();
  const bool flat = rows.blocks.empty() && rows.padded == t.w.shape && rows.span() == t.w.shape.elements();
  if (!flat || !lies_as(rows_as(rows, t.x.shape[0]), t.x)) {
    throw UsageError(fmt::format("{}: x lies in {}, w in {}: both must lie alike, and without gaps", kernel,
                                 t.x.layout_or_plain().str(), rows.str()));
  }
  return {t.x.shape[0], t.x.shape.elements(1), t.w.shape[0]};
}

Epilogue epilogue_of(const LinearForward& spec) {
  if (spec.bias) return spec.relu ? Epilogue::bias_relu : Epilogue::bias;
  return spec.relu ? Epilogue::relu : Epilogue::none;
}

}  // namespace

void choose_layouts(Cuda, const LinearForward& spec, KernelIo& io) {
  tensors_of(spec, io);
  lie_alike(io.inputs[0], io.inputs[1]);
  if (spec.bias) io.inputs[2].layout = Layout::plain(io.inputs[2].shape);
  io.outputs[0].layout = Layout::plain(io.outputs[0].shape);
}

void choose_layouts(Cuda, const LinearBackwardData& spec, KernelIo& io) {
  tensors_of(spec, io);
  lie_alike(io.outputs[0], io.inputs[1]);
  io.inputs[0].layout = Layout::plain(io.inputs[0].shape);
}

void choose_layouts(Cuda, const LinearBackwardWeights& spec, KernelIo& io) {
  tensors_of(spec, io);
  lie_alike(io.inputs[0], io.outputs[0]);
  io.inputs[1].layout = Layout::plain(io.inputs[1].shape);
  if (spec.bias) io.outputs[1].layout = Layout::plain(io.outputs[1].shape);
}

KernelPtr prepare(Cuda, const LinearForward& spec, const KernelIo& io) {
  const auto [rows, inputs, outputs] = check_rows("linear_forward", tensors_of(spec, io));
  const auto gemm = prepare_gemm({.m = rows,
                                  .n = outputs,
                                  .k = inputs,
                                  .transpose_b = true,
                                  .epilogue = epilogue_of(spec),
                                  .precision = gpu_precision(spec.precision)});
  const auto run = [gemm, bias = spec.bias](const Addresses& a, cudaStream_t stream) {
    const GemmOperands operands{a.at(0), a.at(1), a.at(bias ? 3 : 2), bias ? a.at(2) : nullptr};
    gemm->launch(operands, a.workspace<void>(), stream);
  };
  return cuda_kernel(run, gemm->workspace_bytes());
}

KernelPtr prepare(Cuda, const LinearBackwardData& spec, const KernelIo& io) {
  const auto [rows, inputs, outputs] = check_rows("linear_backward_data", tensors_of(spec, io));
  const auto gemm =
      prepare_gemm({.m = rows, .n = inputs, .k = outputs, .precision = gpu_precision(spec.precision)});
  const auto run = [gemm](const Addresses& a, cudaStream_t stream) {
    gemm->launch({a.at(0), a.at(1), a.at(2)}, a.workspace<void>(), stream);
  };
  return cuda_kernel(run, gemm->workspace_bytes());
}

KernelPtr prepare(Cuda, const LinearBackwardWeights& spec, const KernelIo& io) {
  const auto [rows, inputs, outputs] = check_rows("linear_backward_weights", tensors_of(spec, io));
  GemmSpec product{
      .m = outputs, .n = inputs, .k = rows, .transpose_a = true, .precision = gpu_precision(spec.precision)};
  if (spec.bias) {
    product.epilogue = Epilogue::bias_gradient;
    if (const auto gemm = prepare_gemm(product)) {
      const auto run = [gemm](const Addresses& a, cudaStream_t stream) {
        gemm->launch({a.at(1), a.at(0), a.at(2), a.at(3)}, a.workspace<void>(), stream);
      };
      return cuda_kernel(run, gemm->workspace_bytes());
    }
    product.epilogue = Epilogue::none;
  }
  const auto gemm = prepare_gemm(product);
  const BiasGradient bias_gradient(io.inputs[1]);
  const auto run = [gemm, bias_gradient, bias = spec.bias](const Addresses& a, cudaStream_t stream) {
    gemm->launch({a.at(1), a.at(0), a.at(2)}, a.workspace<void>(), stream);
    if (bias) bias_gradient.launch(a.at(1), a.at(3), a.workspace<void>(), stream);
  };
  // One after the other in their stream, so they share the workspace.
  return cuda_kernel(run, std::max(gemm->workspace_bytes(), spec.bias ? bias_gradient.workspace_bytes() : 0));
}

}  // namespace lockstep::kernels
