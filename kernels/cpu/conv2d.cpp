#include "kernels/conv2d.h"

#include "kernels/cpu/library_op.h"
#include "kernels/cpu/onednn.h"
#include "kernels/product_tensors.h"

namespace lockstep::kernels {
namespace {

using Descs = std::vector<dnnl::memory::desc>;
using Role = LibraryOp::Role;

LibraryOp library_op(const Conv2dForward& spec, const KernelIo& io) {
  tensors_of(spec, io);
  LibraryOp op{"conv2d_forward",
               {{DNNL_ARG_SRC, Role::activation}, {DNNL_ARG_WEIGHTS, Role::weights, spec.geometry.groups}},
               {}};
  if (spec.bias) op.operands.push_back({DNNL_ARG_BIAS, Role::vector});
  op.operands.push_back({DNNL_ARG_DST, Role::activation});
  op.describe = [spec](const Descs& d) {
    const onednn::Operands operands{d[0], d[1], spec.bias ? d[2] : dnnl::memory::desc(), d.back()};
    return onednn::conv_forward(operands, spec.geometry, spec.algorithm, spec.relu, spec.precision);
  };
  return op;
}

LibraryOp library_op(const Conv2dBackwardData& spec, const KernelIo& io) {
  tensors_of(spec, io);
  return {"conv2d_backward_data",
          {{DNNL_ARG_DIFF_DST, Role::activation},
           {DNNL_ARG_WEIGHTS, Role::weights, spec.geometry.groups},
           {DNNL_ARG_DIFF_SRC, Role::activation}},
          [spec](const Descs& d) {
            return onednn::conv_backward_data({d[2], d[1], {}, d[0]}, spec.geometry, spec.algorithm,
                                              spec.precision);
          }};
}

LibraryOp library_op(const Conv2dBackwardWeights& spec, const KernelIo& io) {
  tensors_of(spec, io);
  LibraryOp op{"conv2d_backward_weights",
               {{DNNL_ARG_SRC, Role::activation},
                {DNNL_ARG_DIFF_DST, Role::activation},
                {DNNL_ARG_DIFF_WEIGHTS, Role::weights, spec.geometry.groups}},
               {}};
  if (spec.bias) op.operands.push_back({DNNL_ARG_DIFF_BIAS, Role::vector});
  op.describe = [spec](const Descs& d) {
    const onednn::Operands operands{d[0], d[2], spec.bias ? d[3] : dnnl::memory::desc(), d[1]};
    return onednn::conv_backward_weights(operands, spec.geometry, spec.algorithm, spec.precision);
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
