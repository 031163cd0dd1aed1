#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/dtype.h"
#include "kernels/base/export.h"

namespace lockstep {

/// What one tensor, one batch or one arena may take, 1 TiB: more is a slip of the keyboard, and products of
/// sizes below it fit 64 bits.
inline constexpr std::int64_t most_bytes = std::int64_t{1} << 40;

/// Extents of a tensor, outermost first. A scalar has rank 0.
class LOCKSTEP_API Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents) : extents_(extents) {}
  explicit Shape(std::vector<std::int64_t> extents) : extents_(std::move(extents)) {}

  std::size_t rank() const { return extents_.size(); }
  std::int64_t operator[](std::size_t axis) const { return extents_[axis]; }
  std::int64_t& operator[](std::size_t axis) { return extents_[axis]; }
  auto begin() const { return extents_.begin(); }
  auto end() const { return extents_.end(); }

  /// Product of the extents from axis `first` on; 1 for a scalar. UsageError below 0 and above `most_bytes`.
  std::int64_t elements(std::size_t first = 0) const;

  /// "64x3x28x28"; "scalar" for rank 0.
  std::string str() const;

  bool operator==(const Shape&) const = default;

 private:
  std::vector<std::int64_t> extents_;
};

/// Memory of a row-major tensor. UsageError above `most_bytes`.
LOCKSTEP_API std::size_t bytes_of(DType dtype, const Shape& shape);

/// `count` things of `bytes` each. UsageError above `most_bytes` names `what`.
LOCKSTEP_API std::size_t bytes_of_all(std::string_view what, std::size_t count, std::size_t bytes);

}  // namespace lockstep
