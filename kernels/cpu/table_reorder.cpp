#include "kernels/cpu/table_reorder.h"

#include <cstring>

#include "kernels/cpu/parallel.h"

namespace lockstep::kernels {
namespace {

constexpr std::size_t axes = 4;

}  // namespace

TableReorder::Places TableReorder::places_of(const Shape& shape, const Layout& layout) {
  Places places(axes - shape.rank(), {0});
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
    Shape index(std::vector<std::int64_t>(shape.rank(), 0));
    auto& of_axis = places.emplace_back();
    for (; index[axis] < shape[axis]; ++index[axis]) of_axis.push_back(layout.offset(index));
  }
  return places;
}

TableReorder::TableReorder(const Shape& shape, DType dtype, const Layout& from, const Layout& to)
    : shape_(std::vector<std::int64_t>(axes, 1)),
      dtype_(dtype),
      from_(places_of(shape, from)),
      to_(places_of(shape, to)),
      cleared_(to.padded == shape ? 0 : static_cast<std::size_t>(to.span()) * size_of(dtype)) {
  for (std::size_t axis = 0; axis < axes; ++axis)
    shape_[axis] = static_cast<std::int64_t>(from_[axis].size());
}

template <class T>
void TableReorder::copy(const T* from, T* to) const {
  parallel_ranges(shape_[0], shape_.elements(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto a = static_cast<std::size_t>(begin); a < static_cast<std::size_t>(end); ++a) {
      for (std::size_t c = 0; c < from_[2].size(); ++c) {
        for (std::size_t d = 0; d < from_[3].size(); ++d) {
          const T* const source = from + from_[0][a] + from_[2][c] + from_[3][d];
          T* const target = to + to_[0][a] + to_[2][c] + to_[3][d];
          for (std::size_t b = 0; b < from_[1].size(); ++b) target[to_[1][b]] = source[from_[1][b]];
        }
      }
    }
  });
}

void TableReorder::run(const void* from, void* to) const {
  if (cleared_ > 0) std::memset(to, 0, cleared_);
  if (size_of(dtype_) == sizeof(std::uint16_t)) {
    copy(static_cast<const std::uint16_t*>(from), static_cast<std::uint16_t*>(to));
  } else if (size_of(dtype_) == sizeof(std::uint32_t)) {
    copy(static_cast<const std::uint32_t*>(from), static_cast<std::uint32_t*>(to));
  } else {
    copy(static_cast<const std::uint64_t*>(from), static_cast<std::uint64_t*>(to));
  }
}

}  // namespace lockstep::kernels
