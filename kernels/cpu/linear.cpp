#include "kernels/linear.h"

#include "kernels/cpu/cpu_kernel.h"
#include "kernels/cpu/linear_panels.h"
#include "kernels/cpu/linear_tiles.h"
#include "kernels/cpu/onednn_op.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/matmul.h"

namespace lockstep::kernels {
namespace {

using onednn::Operands;
using Role = OnednnOp::Role;

/// Up to so many multiply-adds our own SIMD kernels beat a library call (about 2 us).
constexpr std::int64_t small_product = 4096;

MatmulSize size_of_product(const MatmulOperands& t) {
  return matmul_size(t.x.shape, t.w.shape);
}

bool is_small(const MatmulOperands& t) {
  const auto [rows, inputs, outputs] = size_of_product(t);
  return rows * inputs * outputs <= small_product && t.x.dtype == DType::f32 && t.x.is_row_major() &&
         t.w.is_row_major() && t.y.is_row_major();
}

OnednnOp onednn_op(const Linear& op, const KernelIo& io) {
  OnednnOp product{
      "linear",
      {{DNNL_ARG_SRC, &Operands::x, Role::activation}, {DNNL_ARG_WEIGHTS, &Operands::weights, Role::weights}},
      [op](const dnnl::engine& engine, const Operands& operands) {
        return onednn::linear_forward(engine, operands, op.activation, op.precision);
      }};
  if (matmul_operands(op, io).b != nullptr) {
    product.operands.push_back({DNNL_ARG_BIAS, &Operands::bias, Role::vector});
  }
  product.operands.push_back({DNNL_ARG_DST, &Operands::y, Role::vector});
  return product;
}

OnednnOp onednn_op(const LinearBackwardData& op, const KernelIo&) {
  return {"linear_backward_data",
          {{DNNL_ARG_DIFF_DST, &Operands::y, Role::vector},
           {DNNL_ARG_WEIGHTS, &Operands::weights, Role::weights},
           {DNNL_ARG_DIFF_SRC, &Operands::x, Role::activation}},
          [op](const dnnl::engine& engine, const Operands& operands) {
            return onednn::linear_backward_data(engine, operands, op.precision);
          }};
}

OnednnOp onednn_op(const LinearBackwardWeights& op, const KernelIo& io) {
  OnednnOp gradient{"linear_backward_weights",
                    {{DNNL_ARG_SRC, &Operands::x, Role::activation},
                     {DNNL_ARG_DIFF_DST, &Operands::y, Role::vector},
                     {DNNL_ARG_DIFF_WEIGHTS, &Operands::weights, Role::weights}},
                    [op](const dnnl::engine& engine, const Operands& operands) {
                      return onednn::linear_backward_weights(engine, operands, op.precision);
                    }};
  if (matmul_operands(op, io).b != nullptr) {
    gradient.operands.push_back({DNNL_ARG_DIFF_BIAS, &Operands::bias, Role::vector});
  }
  return gradient;
}

/// oneDNN's product takes matrices and images: x (..., I) and y (..., O) become row-major matrices.
template <class Op>
KernelIo as_matrices(const Op& op, const KernelIo& io) {
  KernelIo matrices = io;
  const MatmulOperands t = matmul_operands(op, matrices);
  if (t.w.shape.rank() != 2) return matrices;
  for (auto* side : {&matrices.inputs, &matrices.outputs}) {
    for (TensorDesc& desc : *side) {
      if (desc.shape.rank() == 2 || &desc == t.b) continue;
      const std::int64_t columns = desc.shape[desc.shape.rank() - 1];
      desc.shape = {columns > 0 ? desc.shape.elements() / columns : 0, columns};
      desc.layout = Layout::row_major(desc.shape);
    }
  }
  return matrices;
}

/// Weights for images have the layout of one more row of images: a matrix product for forward and both
/// gradients, in a layout that every version of the library can tell.
void match_layout(const TensorDesc& x, TensorDesc& w) {
  if (w.shape.rank() != 4 || !x.layout || w.layout) return;
  w.layout = x.layout;
  w.layout->padded[0] = w.shape[0];
}

template <class Op>
void choose(Cpu cpu, const Op& op, KernelIo& io) {
  const MatmulOperands t = matmul_operands(op, io);
  if (is_small(t)) return all_row_major(io);
  KernelIo matrices = as_matrices(op, io);
  choose_onednn_layouts(cpu.onednn, onednn_op(op, matrices), matrices);
  const auto take = [](const std::vector<TensorDesc>& from, std::vector<TensorDesc>& to) {
    for (std::size_t i = 0; i < to.size(); ++i) {
      to[i].layout = from[i].shape == to[i].shape ? from[i].layout : Layout::row_major(to[i].shape);
    }
  };
  take(matrices.inputs, io.inputs);
  take(matrices.outputs, io.outputs);
}

template <class Op>
KernelPtr large_product(Cpu cpu, const Op& op, const KernelIo& io) {
  const KernelIo matrices = as_matrices(op, io);
  if constexpr (!MatmulForward<Op>) {
    if (takes_panels(op, matrices)) return panel_kernel(op, matrices);
    if (takes_tiles(op, matrices)) return tile_kernel(op, matrices);
  }
  return kernel_of(cpu.onednn, onednn_op(op, matrices), matrices);
}

}  // namespace

void choose_layouts(Cpu cpu, const Linear& op, KernelIo& io) {
  if (!is_small(matmul_operands(op, io))) match_layout(io.inputs[Linear::x], io.inputs[Linear::w]);
  choose(cpu, op, io);
}
void choose_layouts(Cpu cpu, const LinearBackwardData& op, KernelIo& io) {
  choose(cpu, op, io);
}
void choose_layouts(Cpu cpu, const LinearBackwardWeights& op, KernelIo& io) {
  choose(cpu, op, io);
}

KernelPtr prepare(Cpu cpu, const Linear& op, const KernelIo& io) {
  const MatmulOperands t = matmul_operands(op, io);
  if (!is_small(t)) return large_product(cpu, op, io);
  return cpu_kernel(io, [op, size = size_of_product(t), kernel = simd::best<Linear>()](const Addresses& a) {
    kernel(op, size, a.in(Linear::x), a.in(Linear::w), a.in(Linear::b), a.out(Linear::y));
  });
}

KernelPtr prepare(Cpu cpu, const LinearBackwardData& op, const KernelIo& io) {
  using Op = LinearBackwardData;
  const MatmulOperands t = matmul_operands(op, io);
  if (!is_small(t)) return large_product(cpu, op, io);
  return cpu_kernel(io, [op, size = size_of_product(t), kernel = simd::best<Op>()](const Addresses& a) {
    kernel(op, size, a.in(Op::dy), a.in(Op::w), a.out(Op::dx));
  });
}

KernelPtr prepare(Cpu cpu, const LinearBackwardWeights& op, const KernelIo& io) {
  using Op = LinearBackwardWeights;
  const MatmulOperands t = matmul_operands(op, io);
  if (!is_small(t)) return large_product(cpu, op, io);
  return cpu_kernel(io, [op, size = size_of_product(t), kernel = simd::best<Op>()](const Addresses& a) {
    kernel(op, size, a.in(Op::x), a.in(Op::dy), a.out(Op::dw), a.out(Op::db));
  });
}

// oneDNN offers one way; which of ours is taken depends on the sizes.
std::vector<Algorithm> algorithms(Cpu, const Linear&, const KernelIo&) {
  return {};
}
std::vector<Algorithm> algorithms(Cpu, const LinearBackwardData&, const KernelIo&) {
  return {};
}
std::vector<Algorithm> algorithms(Cpu, const LinearBackwardWeights&, const KernelIo&) {
  return {};
}

}  // namespace lockstep::kernels
