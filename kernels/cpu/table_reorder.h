#pragma once

#include <cstdint>
#include <vector>

#include "kernels/base/dtype.h"
#include "kernels/layout.h"

namespace lockstep::kernels {

/// A reorder by tables: in every `Layout` the place of an element is the sum of one number for each of its
/// indices. About a nanosecond an element and core; for types that oneDNN lacks, and for pairs of layouts
/// that it has its reference for alone, which takes 90 times as long.
class TableReorder {
 public:
  /// Tensors of up to four axes, of elements of two, four or eight bytes.
  static bool takes(const TensorType& type) { return type.shape.rank() <= 4 && size_of(type.dtype) != 1; }

  /// Of elements of `dtype`, which stays.
  TableReorder(const Shape& shape, DType dtype, const Layout& from, const Layout& to);

  /// On the team. Padding of `to` becomes zero.
  void run(const void* from, void* to) const;

 private:
  /// By axis and index, in elements.
  using Places = std::vector<std::vector<std::int64_t>>;
  static Places places_of(const Shape& shape, const Layout& layout);
  template <class T>
  void copy(const T* from, T* to) const;

  Shape shape_;  ///< of four axes, the first of extent 1 where the tensor has fewer
  DType dtype_;
  Places from_, to_;
  std::size_t cleared_;  ///< bytes of `to` that are zeroed first
};

}  // namespace lockstep::kernels
