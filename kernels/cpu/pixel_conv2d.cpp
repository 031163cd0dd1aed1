#include "kernels/cpu/pixel_conv2d.h"

#include "kernels/cpu/pointwise_conv2d.h"
#include "kernels/linear.h"
#include "kernels/matmul.h"

namespace lockstep::kernels {

void choose_layouts(Cpu, const Linear&, KernelIo&);
void choose_layouts(Cpu, const LinearBackwardData&, KernelIo&);
void choose_layouts(Cpu, const LinearBackwardWeights&, KernelIo&);
KernelPtr prepare(Cpu, const Linear&, const KernelIo&);
KernelPtr prepare(Cpu, const LinearBackwardData&, const KernelIo&);
KernelPtr prepare(Cpu, const LinearBackwardWeights&, const KernelIo&);

namespace {

Linear linear_of(const Conv2d& op) {
  return {.activation = op.activation, .precision = op.precision};
}
LinearBackwardData linear_of(const Conv2dBackwardData& op) {
  return {.precision = op.precision};
}
LinearBackwardWeights linear_of(const Conv2dBackwardWeights& op) {
  return {.precision = op.precision};
}

bool is_one_pixel(const Shape& shape) {
  return shape.rank() == 4 && shape[2] == 1 && shape[3] == 1;
}

template <class Op>
bool are_pixels(const Op& op, const KernelIo& io) {
  const MatmulOperands t = matmul_operands(op, io);
  return op.algorithm == Algorithm::automatic && is_pointwise(op.geometry, t.w.shape) &&
         is_one_pixel(t.x.shape) && (!t.w.layout || blocks_channels_alone(*t.w.layout));
}

/// Blocks of channels lie one after the other, too, where there is one pixel.
bool lies_as_matrix(const TensorDesc& picture) {
  const Layout layout = picture.layout_or_row_major();
  std::int64_t block = 1;
  for (const Layout::Block& inner : layout.blocks) {
    if (inner.dim != 1) return false;
    block *= inner.size;
  }
  return layout.blocks.size() < 2 && layout.padded == picture.shape &&
         layout.strides[0] == picture.shape[1] && layout.strides[1] == block;
}

/// A picture as a row, filters as a matrix with blocks of channels.
TensorDesc as_matrix(const TensorDesc& desc, bool is_filter) {
  if (desc.shape.rank() != 4) return desc;
  if (is_filter && desc.layout) return filters_as_matrix(desc);
  TensorDesc matrix{desc.dtype, {desc.shape[0], desc.shape[1]}, {}};
  if (!is_filter) matrix.layout = Layout::row_major(matrix.shape);
  return matrix;
}

/// The inverse of filters_as_matrix.
Layout filter_layout(const Layout& matrix) {
  std::int64_t block = 1;
  for (const Layout::Block& inner : matrix.blocks) block *= inner.size;
  return {.padded = {matrix.padded[0], matrix.padded[1], 1, 1},
          .strides = {matrix.strides[0], matrix.strides[1], block, block},
          .blocks = matrix.blocks};
}

/// Those of a picture whose channels are blocked as `like`, where they can be.
Layout picture_layout(const TensorDesc& like, const Shape& shape) {
  const bool blocked = like.layout && like.layout->blocks.size() == 1 && like.layout->blocks[0].dim == 1;
  if (!blocked || shape[1] % like.layout->blocks[0].size != 0) return channels_last(shape);
  const std::int64_t block = like.layout->blocks[0].size;
  return {.padded = shape, .strides = {shape[1], block, block, block}, .blocks = like.layout->blocks};
}

/// All tensors in the places that Linear's ops have them in, which are a convolution's.
template <class Op>
KernelIo as_matrices(const Op& op, const KernelIo& io) {
  KernelIo matrices = io;
  const TensorDesc* const w = &matmul_operands(op, io).w;
  for (std::size_t i = 0; i < io.inputs.size(); ++i)
    matrices.inputs[i] = as_matrix(io.inputs[i], &io.inputs[i] == w);
  for (std::size_t i = 0; i < io.outputs.size(); ++i)
    matrices.outputs[i] = as_matrix(io.outputs[i], &io.outputs[i] == w);
  return matrices;
}

template <class Op>
void choose(Cpu cpu, const Op& op, KernelIo& io) {
  KernelIo matrices = as_matrices(op, io);
  choose_layouts(cpu, linear_of(op), matrices);
  const MatmulOperands t = matmul_operands(op, io);
  const TensorDesc* const w = &t.w;
  const TensorDesc given = t.x.layout ? t.x : t.y;
  const auto take = [&](std::vector<TensorDesc>& descs, const std::vector<TensorDesc>& chosen) {
    for (std::size_t i = 0; i < descs.size(); ++i) {
      TensorDesc& desc = descs[i];
      if (desc.shape.rank() != 4) {
        desc.layout = Layout::row_major(desc.shape);
      } else if (&desc == w) {
        if (!desc.layout || as_matrix(desc, true).layout != chosen[i].layout)
          desc.layout = filter_layout(chosen[i].layout_or_row_major());
      } else if (!desc.layout || !lies_as_matrix(desc)) {
        desc.layout = picture_layout(given, desc.shape);
      }
    }
  };
  take(io.inputs, matrices.inputs);
  take(io.outputs, matrices.outputs);
}

}  // namespace

bool is_of_pixels(const Conv2d& op, const KernelIo& io) {
  return are_pixels(op, io);
}
bool is_of_pixels(const Conv2dBackwardData& op, const KernelIo& io) {
  return are_pixels(op, io);
}
bool is_of_pixels(const Conv2dBackwardWeights& op, const KernelIo& io) {
  return are_pixels(op, io);
}

void choose_pixel_layouts(Cpu cpu, const Conv2d& op, KernelIo& io) {
  choose(cpu, op, io);
}
void choose_pixel_layouts(Cpu cpu, const Conv2dBackwardData& op, KernelIo& io) {
  choose(cpu, op, io);
}
void choose_pixel_layouts(Cpu cpu, const Conv2dBackwardWeights& op, KernelIo& io) {
  choose(cpu, op, io);
}

KernelPtr pixel_kernel(Cpu cpu, const Conv2d& op, const KernelIo& io) {
  return prepare(cpu, linear_of(op), as_matrices(op, io));
}
KernelPtr pixel_kernel(Cpu cpu, const Conv2dBackwardData& op, const KernelIo& io) {
  return prepare(cpu, linear_of(op), as_matrices(op, io));
}
KernelPtr pixel_kernel(Cpu cpu, const Conv2dBackwardWeights& op, const KernelIo& io) {
  return prepare(cpu, linear_of(op), as_matrices(op, io));
}

}  // namespace lockstep::kernels
