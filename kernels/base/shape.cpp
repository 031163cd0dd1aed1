#include "kernels/base/shape.h"

#include <fmt/format.h>

#include "kernels/base/error.h"

namespace lockstep {

std::int64_t Shape::elements(std::size_t first) const {
  std::int64_t product = 1;
  for (std::size_t axis = first; axis < extents_.size(); ++axis) {
    // Two of them would make a product that looks like one of sizes.
    if (extents_[axis] < 0)
      throw UsageError(fmt::format("shape {} has a negative size: give sizes from 0 on", str()));
    if (__builtin_mul_overflow(product, extents_[axis], &product) || product > most_bytes) {
      throw UsageError(fmt::format("shape {} has more than 2^40 elements: give smaller sizes", str()));
    }
  }
  return product;
}

std::string Shape::str() const {
  return extents_.empty() ? "scalar" : fmt::format("{}", fmt::join(extents_, "x"));
}

std::size_t bytes_of(DType dtype, const Shape& shape) {
  return bytes_of_all("shape " + shape.str(), static_cast<std::size_t>(shape.elements()), size_of(dtype));
}

std::size_t bytes_of_all(std::string_view what, std::size_t count, std::size_t bytes) {
  std::size_t product = 0;
  if (__builtin_mul_overflow(count, bytes, &product) || product > static_cast<std::size_t>(most_bytes)) {
    throw UsageError(
        fmt::format("{}: {} times {} bytes are more than 2^40: give smaller sizes", what, count, bytes));
  }
  return product;
}

}  // namespace lockstep
