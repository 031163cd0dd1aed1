#include "kernels/conv2d.h"

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/check.h"
#include "kernels/cpu/library_op.h"
#include "kernels/cpu/onednn.h"

namespace lockstep::kernels {
namespace {

using Descs = std::vector<dnnl::memory::desc>;
using Role = LibraryOp::Role;

/// The tensors of a convolution under their own names, whichever of them are inputs.
struct Tensors {
  const TensorDesc& x;
  const TensorDesc& w;
  const TensorDesc* b;
  const TensorDesc& y;
};

std::int64_t output_extent(const Conv2dGeometry& g, std::int64_t in, std::int64_t kernel, std::size_t axis) {
  const std::int64_t reach = g.dilation[axis] * (kernel - 1) + 1;
  return (in + 2 * g.padding[axis] - reach) / g.stride[axis] + 1;
}

void check(std::string_view kernel, const Conv2dGeometry& g, const Tensors& t) {
  check_rank(kernel, "x", t.x, 4);
  check_rank(kernel, "w", t.w, 4);
  const Shape& x = t.x.shape;
  const Shape& w = t.w.shape;
  if (g.groups < 1 || w[1] * g.groups != x[1] || w[0] % g.groups != 0) {
    throw UsageError(
        fmt::format("{}: w {} in {} groups does not fit x {}", kernel, w.str(), g.groups, x.str()));
  }
  const Shape y{x[0], w[0], output_extent(g, x[2], w[2], 0), output_extent(g, x[3], w[3], 1)};
  if (y[2] < 1 || y[3] < 1) {
    throw UsageError(fmt::format("{}: the window of w {} is larger than x {}", kernel, w.str(), x.str()));
  }
  check_shape(kernel, "y", t.y, y);
  if (t.b != nullptr) check_shape(kernel, "b", *t.b, {w[0]});
}

LibraryOp library_op(const Conv2dForward& spec, const KernelIo& io) {
  check_count("conv2d_forward", io, spec.bias ? 3 : 2, 1);
  check("conv2d_forward", spec.geometry,
        {io.inputs[0], io.inputs[1], spec.bias ? &io.inputs[2] : nullptr, io.outputs[0]});
  LibraryOp op{"conv2d_forward",
               {{DNNL_ARG_SRC, Role::activation}, {DNNL_ARG_WEIGHTS, Role::weights, spec.geometry.groups}},
               {}};
  if (spec.bias) op.operands.push_back({DNNL_ARG_BIAS, Role::vector});
  op.operands.push_back({DNNL_ARG_DST, Role::activation});
  op.describe = [spec](const Descs& d) {
    const onednn::Operands operands{d[0], d[1], spec.bias ? d[2] : dnnl::memory::desc(), d.back()};
    return onednn::conv_forward(operands, spec.geometry, spec.algorithm, spec.relu);
  };
  return op;
}

LibraryOp library_op(const Conv2dBackwardData& spec, const KernelIo& io) {
  check_count("conv2d_backward_data", io, 2, 1);
  check("conv2d_backward_data", spec.geometry, {io.outputs[0], io.inputs[1], nullptr, io.inputs[0]});
  return {"conv2d_backward_data",
          {{DNNL_ARG_DIFF_DST, Role::activation},
           {DNNL_ARG_WEIGHTS, Role::weights, spec.geometry.groups},
           {DNNL_ARG_DIFF_SRC, Role::activation}},
          [spec](const Descs& d) {
            return onednn::conv_backward_data({d[2], d[1], {}, d[0]}, spec.geometry, spec.algorithm);
          }};
}

LibraryOp library_op(const Conv2dBackwardWeights& spec, const KernelIo& io) {
  check_count("conv2d_backward_weights", io, 2, spec.bias ? 2 : 1);
  check("conv2d_backward_weights", spec.geometry,
        {io.inputs[0], io.outputs[0], spec.bias ? &io.outputs[1] : nullptr, io.inputs[1]});
  LibraryOp op{"conv2d_backward_weights",
               {{DNNL_ARG_SRC, Role::activation},
                {DNNL_ARG_DIFF_DST, Role::activation},
                {DNNL_ARG_DIFF_WEIGHTS, Role::weights, spec.geometry.groups}},
               {}};
  if (spec.bias) op.operands.push_back({DNNL_ARG_DIFF_BIAS, Role::vector});
  op.describe = [spec](const Descs& d) {
    const onednn::Operands operands{d[0], d[2], spec.bias ? d[3] : dnnl::memory::desc(), d[1]};
    return onednn::conv_backward_weights(operands, spec.geometry, spec.algorithm);
  };
  return op;
}

template <class Spec>
std::vector<ConvAlgorithm> available_algorithms(Spec spec, const KernelIo& io) {
  std::vector<ConvAlgorithm> found;
  for (const ConvAlgorithm algorithm : {ConvAlgorithm::direct, ConvAlgorithm::winograd}) {
    spec.algorithm = algorithm;
    if (available(library_op(spec, io), io)) found.push_back(algorithm);
  }
  if (found.empty()) found.push_back(ConvAlgorithm::automatic);
  return found;
}

}  // namespace

void choose_layouts(Cpu, const Conv2dForward& spec, KernelIo& io) {
  choose_layouts(library_op(spec, io), io);
}
void choose_layouts(Cpu, const Conv2dBackwardData& spec, KernelIo& io) {
  choose_layouts(library_op(spec, io), io);
}
void choose_layouts(Cpu, const Conv2dBackwardWeights& spec, KernelIo& io) {
  choose_layouts(library_op(spec, io), io);
}

KernelPtr prepare(Cpu, const Conv2dForward& spec, const KernelIo& io) {
  return prepare(library_op(spec, io), io);
}
KernelPtr prepare(Cpu, const Conv2dBackwardData& spec, const KernelIo& io) {
  return prepare(library_op(spec, io), io);
}
KernelPtr prepare(Cpu, const Conv2dBackwardWeights& spec, const KernelIo& io) {
  return prepare(library_op(spec, io), io);
}

std::vector<ConvAlgorithm> algorithms(Cpu, const Conv2dForward& spec, const KernelIo& io) {
  return available_algorithms(spec, io);
}
std::vector<ConvAlgorithm> algorithms(Cpu, const Conv2dBackwardData& spec, const KernelIo& io) {
  return available_algorithms(spec, io);
}
std::vector<ConvAlgorithm> algorithms(Cpu, const Conv2dBackwardWeights& spec, const KernelIo& io) {
  return available_algorithms(spec, io);
}

}  // namespace lockstep::kernels
