#include "kernels/cpu/pointwise_conv2d.h"

#include <algorithm>
#include <array>

#include "kernels/cpu/conv2d_grid.h"
#include "kernels/cpu/linear_tiles.h"
#include "kernels/cpu/onednn_op.h"
#include "kernels/cpu/strided_pixels.h"

namespace lockstep::kernels {
namespace {

using conv2d_tiles::are_channels_last;
using onednn::Operands;
using Role = OnednnOp::Role;

/// By filters of one pixel, of pictures whose channels lie side by side, in bf16 with tiles.
bool are_products(const Conv2dGeometry& geometry, const MatmulOperands& t) {
  return t.x.dtype == DType::bf16 && onednn::multiplies_by_amx() && is_pointwise(geometry, t.w.shape) &&
         blocks_channels_alone(t.w.layout_or_row_major()) && are_channels_last(t.x) && are_channels_last(t.y);
}

StridedPixels met_pixels(const Conv2dGeometry& geometry, const MatmulOperands& t) {
  return {geometry.stride, t.x.shape, t.y.shape};
}

/// A row for each pixel, with a column for each channel.
TensorDesc as_matrix(const TensorDesc& pictures) {
  const Shape& shape = pictures.shape;
  const Shape matrix{shape[0] * shape[2] * shape[3], shape[1]};
  return {pictures.dtype, matrix, Layout::row_major(matrix)};
}

TensorDesc transposed(const TensorDesc& matrix) {
  const Shape shape{matrix.shape[1], matrix.shape[0]};
  return {matrix.dtype, shape, Layout{.padded = shape, .strides = {1, shape[0]}, .blocks = {}}};
}

/// Pixels up to which data's gradient is faster as a linear map's than as the convolution's of the library.
constexpr std::int64_t most_pixels = 2048;

/// By tiles, or by the library, which takes dy as it lies for its transpose.
KernelPtr product_kernel(Cpu cpu, const Conv2dBackwardWeights& op, const TensorDesc& x, const TensorDesc& dy,
                         const TensorDesc& dw) {
  const LinearBackwardWeights tiles{.precision = op.precision};
  if (const KernelIo io{{x, dy}, {dw}}; takes_tiles(tiles, io)) return tile_kernel(tiles, io);
  const OnednnOp product{"conv2d_backward_weights",
                         {{DNNL_ARG_WEIGHTS, &Operands::weights, Role::vector},
                          {DNNL_ARG_SRC, &Operands::x, Role::vector},
                          {DNNL_ARG_DST, &Operands::y, Role::weights}},
                         [op](const dnnl::engine& engine, const Operands& operands) {
                           return onednn::matmul(engine, operands, false, op.precision);
                         }};
  return kernel_of(cpu.onednn, product, {{x, transposed(dy)}, {dw}});
}

/// Of a data gradient without a stride.
KernelIo matrices_of(const MatmulOperands& t) {
  return {{as_matrix(t.y), filters_as_matrix(t.w)}, {as_matrix(t.x)}};
}

}  // namespace

bool is_pointwise(const Conv2dGeometry& geometry, const Shape& filters) {
  constexpr std::array<std::int64_t, 2> zeros{0, 0};
  return filters[2] == 1 && filters[3] == 1 && geometry.groups == 1 && geometry.padding == zeros;
}

bool blocks_channels_alone(const Layout& filters) {
  return std::ranges::all_of(filters.blocks, [](const Layout::Block& block) { return block.dim < 2; });
}

TensorDesc filters_as_matrix(const TensorDesc& filters) {
  const Layout layout = filters.layout_or_row_major();
  const auto leading = [](const Shape& shape) { return Shape{shape[0], shape[1]}; };
  return {filters.dtype, leading(filters.shape),
          Layout{leading(layout.padded), leading(layout.strides), layout.blocks}};
}

bool is_product_of_pixels(const Conv2dBackwardWeights& op, const KernelIo& io) {
  const MatmulOperands t = matmul_operands(op, io);
  return t.b == nullptr && are_products(op.geometry, t);
}

KernelPtr pixel_product_kernel(Cpu cpu, const Conv2dBackwardWeights& op, const KernelIo& io) {
  const MatmulOperands t = matmul_operands(op, io);
  const StridedPixels met = met_pixels(op.geometry, t);
  return with_gathered(
      met, Conv2dBackwardWeights::x,
      product_kernel(cpu, op, as_matrix(met.desc()), as_matrix(t.y), filters_as_matrix(t.w)));
}

bool is_product_of_pixels(const Conv2dBackwardData& op, const KernelIo& io) {
  const MatmulOperands t = matmul_operands(op, io);
  if (op.algorithm == Algorithm::winograd || !are_products(op.geometry, t)) return false;
  return !met_pixels(op.geometry, t).are_all() || (t.y.shape.elements() / t.y.shape[1] <= most_pixels &&
                                                   can_use_tiles(LinearBackwardData{}, matrices_of(t)));
}

KernelPtr pixel_product_kernel(Conv2dBackwardData op, const KernelIo& io, const PrepareData& prepare) {
  const MatmulOperands t = matmul_operands(op, io);
  const StridedPixels met = met_pixels(op.geometry, t);
  if (met.are_all()) return tile_kernel(LinearBackwardData{.precision = op.precision}, matrices_of(t));
  op.geometry.stride = {1, 1};
  return with_scattered(met, io.inputs.size(), prepare(op, {io.inputs, {met.desc()}}));
}

}  // namespace lockstep::kernels
