#include "kernels/cpu/pointwise_conv2d.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "kernels/base/half.h"
#include "kernels/cpu/onednn_op.h"
#include "kernels/cpu/parallel.h"

namespace lockstep::kernels {
namespace {

using Op = Conv2dBackwardWeights;
using onednn::Operands;
using Role = OnednnOp::Role;

bool is_strided(const Conv2dGeometry& geometry) {
  return geometry.stride != std::array<std::int64_t, 2>{1, 1};
}

bool are_channels_last(const TensorDesc& pictures) {
  return has_layout(channels_last(pictures.shape), pictures);
}

/// A row for each pixel, with a column for each of the `channels`.
TensorDesc pixels_of(const TensorDesc& pictures, std::int64_t channels) {
  const Shape& shape = pictures.shape;
  const Shape matrix{shape[0] * shape[2] * shape[3], channels};
  return {pictures.dtype, matrix, Layout::row_major(matrix)};
}

TensorDesc transposed(const TensorDesc& matrix) {
  const Shape shape{matrix.shape[1], matrix.shape[0]};
  return {matrix.dtype, shape, Layout{.padded = shape, .strides = {1, shape[0]}, .blocks = {}}};
}

/// The pixels of x that the filter meets, one after the other.
struct Gather {
  Conv2dGeometry geometry;
  Shape x, dy;  ///< channels-last

  std::int64_t rows() const { return dy[0] * dy[2]; }
  std::size_t pixel_bytes() const { return static_cast<std::size_t>(x[1]) * sizeof(BFloat16); }
  std::size_t bytes() const { return static_cast<std::size_t>(rows() * dy[3]) * pixel_bytes(); }

  void operator()(const std::byte* from, std::byte* to) const {
    parallel_ranges(rows(), rows() * dy[3] * x[1], 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t line = row / dy[2] * x[2] + row % dy[2] * geometry.stride[0];
        for (std::int64_t column = 0; column < dy[3]; ++column) {
          const std::int64_t pixel = line * x[3] + column * geometry.stride[1];
          std::memcpy(to + static_cast<std::size_t>(row * dy[3] + column) * pixel_bytes(),
                      from + static_cast<std::size_t>(pixel) * pixel_bytes(), pixel_bytes());
        }
      }
    });
  }
};

/// A product whose input 0 is gathered in the workspace.
class GatheredProduct final : public Kernel {
 public:
  GatheredProduct(const Gather& gather, KernelPtr product) : gather_(gather), product_(std::move(product)) {}

  std::size_t workspace_bytes() const override {
    return whole_lines(gather_.bytes()) + product_->workspace_bytes();
  }

  std::unique_ptr<BoundKernel> bind(std::span<void* const> args, void* workspace) const override {
    auto* const gathered = static_cast<std::byte*>(workspace);
    std::vector<void*> operands(args.begin(), args.end());
    operands[Op::x] = gathered;
    return std::make_unique<Bound>(gather_, static_cast<const std::byte*>(args[Op::x]), gathered,
                                   product_->bind(operands, gathered + whole_lines(gather_.bytes())));
  }

 private:
  class Bound final : public BoundKernel {
   public:
    Bound(const Gather& gather, const std::byte* x, std::byte* gathered, std::unique_ptr<BoundKernel> product)
        : gather_(gather), x_(x), gathered_(gathered), product_(std::move(product)) {}

    void launch(Stream& stream) override {
      gather_(x_, gathered_);
      product_->launch(stream);
    }

   private:
    Gather gather_;
    const std::byte* x_;
    std::byte* gathered_;
    std::unique_ptr<BoundKernel> product_;
  };

  Gather gather_;
  KernelPtr product_;
};

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

bool is_product_of_pixels(const Op& op, const KernelIo& io) {
  const TensorDesc& dw = io.outputs[Op::dw];
  const bool has_bias = io.outputs.size() > Op::db;
  return io.inputs[Op::x].dtype == DType::bf16 && onednn::has_tiles() && !has_bias &&
         is_pointwise(op.geometry, dw.shape) && blocks_channels_alone(dw.layout_or_row_major()) &&
         are_channels_last(io.inputs[Op::x]) && are_channels_last(io.inputs[Op::dy]);
}

KernelPtr pixel_product_kernel(Cpu cpu, const Op& op, const KernelIo& io) {
  const OnednnOp product{"conv2d_backward_weights",
                         {{DNNL_ARG_WEIGHTS, &Operands::weights, Role::vector},
                          {DNNL_ARG_SRC, &Operands::x, Role::vector},
                          {DNNL_ARG_DST, &Operands::y, Role::weights}},
                         [op](const dnnl::engine& engine, const Operands& operands) {
                           return onednn::matmul(engine, operands, false, op.precision);
                         }};
  const TensorDesc& x = io.inputs[Op::x];
  const TensorDesc& dy = io.inputs[Op::dy];
  const KernelIo matrices{{pixels_of(dy, x.shape[1]), transposed(pixels_of(dy, dy.shape[1]))},
                          {filters_as_matrix(io.outputs[Op::dw])}};
  KernelPtr kernel = kernel_of(cpu.onednn, product, matrices);
  if (!is_strided(op.geometry)) return kernel;
  return std::make_unique<GatheredProduct>(Gather{op.geometry, x.shape, dy.shape}, std::move(kernel));
}

}  // namespace lockstep::kernels
