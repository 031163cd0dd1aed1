#include "kernels/conv2d.h"

#include "kernels/cpu/conv2d_tiles.h"
#include "kernels/cpu/depthwise_conv2d.h"
#include "kernels/cpu/onednn_op.h"
#include "kernels/cpu/pixel_conv2d.h"
#include "kernels/cpu/pointwise_conv2d.h"
#include "kernels/cpu/winograd_conv2d.h"
#include "kernels/matmul.h"

namespace lockstep::kernels {
namespace {

using onednn::Operands;
using Role = OnednnOp::Role;

bool compute_bound(const TensorDesc& weights) {
  return weights.shape[1] > 1 && weights.shape[2] * weights.shape[3] > 1;
}

OnednnOp onednn_op(const Conv2d& op, const KernelIo& io) {
  OnednnOp convolution{"conv2d",
                       {{DNNL_ARG_SRC, &Operands::x, Role::activation},
                        {DNNL_ARG_WEIGHTS, &Operands::weights, Role::weights, op.geometry.groups}},
                       [op](const dnnl::engine& engine, const Operands& operands) {
                         return onednn::conv_forward(engine, operands, op.geometry, op.algorithm,
                                                     op.activation, op.precision);
                       },
                       compute_bound(io.inputs[Conv2d::w])};
  if (matmul_operands(op, io).b != nullptr) {
    convolution.operands.push_back({DNNL_ARG_BIAS, &Operands::bias, Role::vector});
  }
  convolution.operands.push_back({DNNL_ARG_DST, &Operands::y, Role::activation});
  return convolution;
}

OnednnOp onednn_op(const Conv2dBackwardData& op, const KernelIo& io) {
  return {"conv2d_backward_data",
          {{DNNL_ARG_DIFF_DST, &Operands::y, Role::activation},
           {DNNL_ARG_WEIGHTS, &Operands::weights, Role::weights, op.geometry.groups},
           {DNNL_ARG_DIFF_SRC, &Operands::x, Role::activation}},
          [op](const dnnl::engine& engine, const Operands& operands) {
            return onednn::conv_backward_data(engine, operands, op.geometry, op.algorithm, op.precision);
          },
          compute_bound(io.inputs[Conv2dBackwardData::w])};
}

OnednnOp onednn_op(const Conv2dBackwardWeights& op, const KernelIo& io) {
  OnednnOp gradient{"conv2d_backward_weights",
                    {{DNNL_ARG_SRC, &Operands::x, Role::activation},
                     {DNNL_ARG_DIFF_DST, &Operands::y, Role::activation},
                     {DNNL_ARG_DIFF_WEIGHTS, &Operands::weights, Role::weights, op.geometry.groups}},
                    [op](const dnnl::engine& engine, const Operands& operands) {
                      return onednn::conv_backward_weights(engine, operands, op.geometry, op.algorithm,
                                                           op.precision);
                    },
                    compute_bound(io.outputs[Conv2dBackwardWeights::dw])};
  if (matmul_operands(op, io).b != nullptr) {
    gradient.operands.push_back({DNNL_ARG_DIFF_BIAS, &Operands::bias, Role::vector});
  }
  return gradient;
}

template <class Op>
std::vector<Algorithm> available_algorithms(Cpu cpu, Op op, const KernelIo& io) {
  std::vector<Algorithm> found;
  for (const Algorithm algorithm : {Algorithm::direct, Algorithm::winograd}) {
    op.algorithm = algorithm;
    if (available(cpu.onednn, onednn_op(op, io), io)) found.push_back(algorithm);
  }
  if (has_winograd(op, io)) found.push_back(Algorithm::own_winograd);
  if (found.empty()) found.push_back(Algorithm::automatic);
  return found;
}

/// Whether our own Winograd kernel computes it. Where that multiplies f32 and the library bf16, at a higher
/// rate, it is the library's.
template <class Op>
bool goes_to_winograd(const Op& op, const KernelIo& io) {
  if (!takes_winograd(op, io)) return false;
  if (op.algorithm == Algorithm::own_winograd) return true;
  const DType dtype = io.inputs[0].dtype;
  if (dtype == DType::f32) return !onednn::rounds_to_bf16(op.precision);
  return !onednn::multiplies_bf16_faster() || winograd_factors(dtype) == DType::bf16;
}

}  // namespace

void choose_layouts(Cpu cpu, const Conv2d& op, KernelIo& io) {
  if (is_of_pixels(op, io)) return choose_pixel_layouts(cpu, op, io);
  if (!generates(cpu.onednn, onednn_op(op, io), io) && choose_depthwise_layouts(op, io)) return;
  choose_onednn_layouts(cpu.onednn, onednn_op(op, io), io);
}
void choose_layouts(Cpu cpu, const Conv2dBackwardData& op, KernelIo& io) {
  if (is_of_pixels(op, io)) return choose_pixel_layouts(cpu, op, io);
  choose_onednn_layouts(cpu.onednn, onednn_op(op, io), io);
}
void choose_layouts(Cpu cpu, const Conv2dBackwardWeights& op, KernelIo& io) {
  if (is_of_pixels(op, io)) return choose_pixel_layouts(cpu, op, io);
  if (choose_depthwise_layouts(op, io)) return;
  choose_onednn_layouts(cpu.onednn, onednn_op(op, io), io);
}

KernelPtr prepare(Cpu cpu, const Conv2d& op, const KernelIo& io) {
  if (is_of_pixels(op, io)) return pixel_kernel(cpu, op, io);
  if (goes_to_winograd(op, io)) return winograd_kernel(op, io);
  if (op.algorithm != Algorithm::winograd && takes_tiles(op, io)) return tile_kernel(op, io);
  if (is_depthwise(op, io) && !generates(cpu.onednn, onednn_op(op, io), io)) return depthwise_kernel(op, io);
  return kernel_of(cpu.onednn, onednn_op(op, io), io);
}
KernelPtr prepare(Cpu cpu, const Conv2dBackwardData& op, const KernelIo& io) {
  if (is_of_pixels(op, io)) return pixel_kernel(cpu, op, io);
  if (goes_to_winograd(op, io)) return winograd_kernel(op, io);
  if (is_product_of_pixels(op, io)) {
    return pixel_product_kernel(op, io, [cpu](const Conv2dBackwardData& dense, const KernelIo& pixels) {
      return prepare(cpu, dense, pixels);
    });
  }
  if (op.algorithm != Algorithm::winograd && takes_tiles(op, io)) return tile_kernel(op, io);
  return kernel_of(cpu.onednn, onednn_op(op, io), io);
}
KernelPtr prepare(Cpu cpu, const Conv2dBackwardWeights& op, const KernelIo& io) {
  if (is_of_pixels(op, io)) return pixel_kernel(cpu, op, io);
  if (goes_to_winograd(op, io)) return winograd_kernel(op, io);
  if (is_depthwise(op, io)) return depthwise_kernel(op, io);
  if (is_product_of_pixels(op, io)) return pixel_product_kernel(cpu, op, io);
  // Wherever they can be used: conv2d_tiles.h has the rates of both.
  if (op.algorithm != Algorithm::winograd && can_use_tiles(op, io)) return tile_kernel(op, io);
  return kernel_of(cpu.onednn, onednn_op(op, io), io);
}

std::vector<Algorithm> algorithms(Cpu cpu, const Conv2d& op, const KernelIo& io) {
  if (is_of_pixels(op, io)) return {Algorithm::automatic};
  return available_algorithms(cpu, op, io);
}
std::vector<Algorithm> algorithms(Cpu cpu, const Conv2dBackwardData& op, const KernelIo& io) {
  if (is_of_pixels(op, io)) return {Algorithm::automatic};
  return available_algorithms(cpu, op, io);
}
std::vector<Algorithm> algorithms(Cpu cpu, const Conv2dBackwardWeights& op, const KernelIo& io) {
  if (is_of_pixels(op, io) || is_depthwise(op, io)) return {Algorithm::automatic};
  return available_algorithms(cpu, op, io);
}

}  // namespace lockstep::kernels
