#include "kernels/base/shape.h"

#include <fmt/format.h>

namespace lockstep {

std::int64_t Shape::elements(std::size_t first) const {
  std::int64_t product = 1;
  for (std::size_t axis = first; axis < extents_.size(); ++axis) product *= extents_[axis];
  return product;
}

std::string Shape::str() const {
  return extents_.empty() ? "scalar" : fmt::format("{}", fmt::join(extents_, "x"));
}

}  // namespace lockstep
