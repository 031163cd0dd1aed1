#include "kernels/view.h"

#include <algorithm>

#include "kernels/pointwise.h"

namespace lockstep::kernels {
namespace {

/// The input's layout if its strides tell all of it, else row-major.
const Layout& strided(TensorDesc& in) {
  const bool usable = in.layout && in.layout->blocks.empty() && in.layout->padded == in.shape;
  if (!usable) in.layout = Layout::row_major(in.shape);
  return *in.layout;
}

}  // namespace

Types Permute::infer(TypeSpan in) const {
  require_count(in, 1, 1);
  const std::size_t rank = in[x].shape.rank();
  std::vector<std::int64_t> sorted = axes;
  std::ranges::sort(sorted);
  bool all = sorted.size() == rank;
  for (std::size_t i = 0; all && i < rank; ++i) all = sorted[i] == static_cast<std::int64_t>(i);
  if (!all) {
    throw_misfit("axes " + Shape(axes).str() + " are not the dimensions of " + in[x].shape.str() +
                 ", each once");
  }
  Shape shape = in[x].shape;
  for (std::size_t i = 0; i < rank; ++i) shape[i] = in[x].shape[static_cast<std::size_t>(axes[i])];
  return {{in[x].dtype, shape}};
}

void Permute::view(KernelIo& io) const {
  const Layout& from = strided(io.inputs[x]);
  TensorDesc& out = io.outputs[0];
  Layout to{.padded = out.shape, .strides = out.shape, .blocks = {}};
  for (std::size_t i = 0; i < axes.size(); ++i)
    to.strides[i] = from.strides[static_cast<std::size_t>(axes[i])];
  out.layout = to;
}

Types Expand::infer(TypeSpan in) const {
  require_count(in, 1, 1);
  if (broadcast(in[x].shape, shape) != shape)
    throw_misfit(in[x].shape.str() + " does not expand to " + shape.str());
  return {{in[x].dtype, shape}};
}

void Expand::view(KernelIo& io) const {
  const Layout& from = strided(io.inputs[x]);
  const Shape& small = io.inputs[x].shape;
  Layout to{.padded = shape, .strides = shape, .blocks = {}};
  const std::size_t missing = shape.rank() - small.rank();
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    const bool repeated = i < missing || small[i - missing] != shape[i];
    to.strides[i] = repeated ? 0 : from.strides[i - missing];
  }
  io.outputs[0].layout = to;
}

}  // namespace lockstep::kernels
