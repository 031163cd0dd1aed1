#include "kernels/cuda/channels_last.h"

namespace lockstep::kernels {

Layout channels_last(const Shape& shape) {
  Layout layout = Layout::row_major(shape);
  layout.strides[1] = 1;
  layout.strides[3] = shape[1];
  layout.strides[2] = shape[3] * shape[1];
  return layout;
}

bool has_layout(const Layout& layout, const TensorDesc& desc) {
  const Layout have = desc.layout_or_row_major();
  if (!have.blocks.empty() || have.padded != desc.shape) return false;
  for (std::size_t axis = 0; axis < desc.shape.rank(); ++axis) {
    if (desc.shape[axis] != 1 && have.strides[axis] != layout.strides[axis]) return false;
  }
  return true;
}

}  // namespace lockstep::kernels
