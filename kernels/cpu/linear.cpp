#include "kernels/linear.h"

#include "kernels/cpu/library_op.h"
#include "kernels/cpu/loop_kernel.h"
#include "kernels/cpu/loops/loops.h"
#include "kernels/cpu/onednn.h"
#include "kernels/product_tensors.h"

namespace lockstep::kernels {
namespace {

using Descs = std::vector<dnnl::memory::desc>;
using Role = LibraryOp::Role;

/// Up to so many multiply-adds our own loops beat a library call (about 2 us).
constexpr std::int64_t small_product = 4096;

loops::SmallLinear size_of_product(const ProductTensors& t) {
  return {t.x.shape[0], t.x.shape.elements(1), t.w.shape[0]};
}

bool plain_or_free(const TensorDesc& desc) {
  return !desc.layout || desc.layout->is_plain(desc.shape);
}

bool is_small(const ProductTensors& t) {
  const auto [rows, inputs, outputs] = size_of_product(t);
  return rows * inputs * outputs <= small_product && plain_or_free(t.x) && plain_or_free(t.w) &&
         plain_or_free(t.y);
}

LibraryOp library_op(const LinearForward& spec) {
  LibraryOp op{"linear_forward", {{DNNL_ARG_SRC, Role::activation}, {DNNL_ARG_WEIGHTS, Role::weights}}, {}};
  if (spec.bias) op.operands.push_back({DNNL_ARG_BIAS, Role::vector});
  op.operands.push_back({DNNL_ARG_DST, Role::vector});
  op.describe = [spec](const Descs& d) {
    return onednn::linear_forward({d[0], d[1], spec.bias ? d[2] : dnnl::memory::desc(), d.back()}, spec.relu,
                                  spec.precision);
  };
  return op;
}

LibraryOp library_op(const LinearBackwardData& spec) {
  return {"linear_backward_data",
          {{DNNL_ARG_DIFF_DST, Role::vector},
           {DNNL_ARG_WEIGHTS, Role::weights},
           {DNNL_ARG_DIFF_SRC, Role::activation}},
          [spec](const Descs& d) {
            return onednn::linear_backward_data({d[2], d[1], {}, d[0]}, spec.precision);
          }};
}

LibraryOp library_op(const LinearBackwardWeights& spec) {
  LibraryOp op{"linear_backward_weights",
               {{DNNL_ARG_SRC, Role::activation},
                {DNNL_ARG_DIFF_DST, Role::vector},
                {DNNL_ARG_DIFF_WEIGHTS, Role::weights}},
               {}};
  if (spec.bias) op.operands.push_back({DNNL_ARG_DIFF_BIAS, Role::vector});
  op.describe = [spec](const Descs& d) {
    return onednn::linear_backward_weights({d[0], d[2], spec.bias ? d[3] : dnnl::memory::desc(), d[1]},
                                           spec.precision);
  };
  return op;
}

/// Weights for pictures lie as one more row of pictures does: a plain matrix product for forward and both
/// gradients, in a layout that every version of the library can tell.
void lie_like(const TensorDesc& x, TensorDesc& w) {
  if (x.shape.rank() != 4 || !x.layout || w.layout) return;
  w.layout = x.layout;
  w.layout->padded[0] = w.shape[0];
}

template <class Spec>
void choose(const Spec& spec, KernelIo& io) {
  if (is_small(tensors_of(spec, io))) {
    all_plain(io);
  } else {
    choose_layouts(library_op(spec), io);
  }
}

}  // namespace

void choose_layouts(Cpu, const LinearForward& spec, KernelIo& io) {
  if (!is_small(tensors_of(spec, io))) lie_like(io.inputs[0], io.inputs[1]);
  choose(spec, io);
}
void choose_layouts(Cpu, const LinearBackwardData& spec, KernelIo& io) {
  choose(spec, io);
}
void choose_layouts(Cpu, const LinearBackwardWeights& spec, KernelIo& io) {
  choose(spec, io);
}

KernelPtr prepare(Cpu, const LinearForward& spec, const KernelIo& io) {
  const ProductTensors t = tensors_of(spec, io);
  if (!is_small(t)) return prepare(library_op(spec), io);
  return loop_kernel([spec, size = size_of_product(t)](const Addresses& a) {
    loops::best().linear(size, spec.relu, a.at(0), a.at(1), spec.bias ? a.at(2) : nullptr,
                         a.at(spec.bias ? 3 : 2));
  });
}

KernelPtr prepare(Cpu, const LinearBackwardData& spec, const KernelIo& io) {
  const ProductTensors t = tensors_of(spec, io);
  if (!is_small(t)) return prepare(library_op(spec), io);
  return loop_kernel([size = size_of_product(t)](const Addresses& a) {
    loops::best().linear_backward_data(size, a.at(0), a.at(1), a.at(2));
  });
}

KernelPtr prepare(Cpu, const LinearBackwardWeights& spec, const KernelIo& io) {
  const ProductTensors t = tensors_of(spec, io);
  if (!is_small(t)) return prepare(library_op(spec), io);
  return loop_kernel([spec, size = size_of_product(t)](const Addresses& a) {
    loops::best().linear_backward_weights(size, a.at(0), a.at(1), a.at(2), spec.bias ? a.at(3) : nullptr);
  });
}

}  // namespace lockstep::kernels
