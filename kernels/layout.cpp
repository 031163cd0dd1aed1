#include "kernels/layout.h"

#include "kernels/base/error.h"

namespace lockstep::kernels {

Layout Layout::row_major(const Shape& shape) {
  Layout layout{.padded = shape, .strides = shape, .blocks = {}};
  std::int64_t stride = 1;
  for (std::size_t axis = shape.rank(); axis-- > 0; stride *= shape[axis]) layout.strides[axis] = stride;
  return layout;
}

Layout Layout::row_major_up_to(std::int64_t rows, const Shape& shape) {
  Layout layout = row_major(shape);
  layout.padded[0] = rows;
  return layout;
}

bool Layout::lies_row_major(const Shape& shape) const {
  if (shape.rank() == 0 || padded.rank() != shape.rank()) return is_row_major(shape);
  return padded[0] >= shape[0] && *this == row_major_up_to(padded[0], shape);
}

std::int64_t Layout::span() const {
  std::int64_t inner = 1;
  Shape outer = padded;
  for (const Block& block : blocks) {
    inner *= block.size;
    outer[static_cast<std::size_t>(block.dim)] /= block.size;
  }
  std::int64_t last = 0;
  for (std::size_t axis = 0; axis < outer.rank(); ++axis) {
    if (outer[axis] == 0) return 0;
    last += (outer[axis] - 1) * strides[axis];
  }
  return last + inner;
}

std::int64_t Layout::offset(const Shape& index) const {
  Shape rest = index;
  std::int64_t at = 0;
  std::int64_t stride = 1;
  for (std::size_t i = blocks.size(); i-- > 0;) {
    std::int64_t& position = rest[static_cast<std::size_t>(blocks[i].dim)];
    at += position % blocks[i].size * stride;
    position /= blocks[i].size;
    stride *= blocks[i].size;
  }
  for (std::size_t axis = 0; axis < rest.rank(); ++axis) at += rest[axis] * strides[axis];
  return at;
}

std::string Layout::str() const {
  if (is_row_major(padded)) return "row-major";
  std::string name;
  for (std::size_t axis = 0; axis < padded.rank(); ++axis) {
    bool blocked = false;
    for (const Block& block : blocks) blocked |= block.dim == static_cast<int>(axis);
    name += static_cast<char>((blocked ? 'A' : 'a') + static_cast<char>(axis));
  }
  for (const Block& block : blocks) name += std::to_string(block.size) + static_cast<char>('a' + block.dim);
  // Dimensions in order of falling stride, so that channels-last reads as such.
  std::string ordered;
  std::vector<bool> done(padded.rank(), false);
  for (std::size_t n = 0; n < padded.rank(); ++n) {
    std::size_t best = padded.rank();
    for (std::size_t axis = 0; axis < padded.rank(); ++axis) {
      if (!done[axis] && (best == padded.rank() || strides[axis] > strides[best])) best = axis;
    }
    done[best] = true;
    ordered += name[best];
  }
  return ordered + name.substr(padded.rank());
}

std::string TensorType::str() const {
  return std::string(name_of(dtype)) + " " + shape.str();
}

Types types_of(std::span<const TensorDesc> tensors) {
  Types types;
  types.reserve(tensors.size());
  for (const TensorDesc& tensor : tensors) types.push_back(tensor.type());
  return types;
}

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

void all_row_major(KernelIo& io) {
  for (auto* side : {&io.inputs, &io.outputs}) {
    for (TensorDesc& desc : *side) {
      if (!desc.layout || !desc.layout->lies_row_major(desc.shape))
        desc.layout = Layout::row_major(desc.shape);
    }
  }
}

void keep_layouts(KernelIo& io) {
  for (TensorDesc& desc : io.inputs) desc.layout = desc.layout_or_row_major();
  for (TensorDesc& desc : io.outputs) desc.layout = desc.layout_or_row_major();
}

}  // namespace lockstep::kernels
