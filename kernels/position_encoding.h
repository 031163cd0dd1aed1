#pragma once

#include <cmath>

#include "kernels/op.h"

namespace lockstep::kernels {

/// y = x + e for x (..., T, D) f32, where e has at position t sin(t / 10000^(i / D)) in each even column i
/// and the cosine of the same in column i + 1: A. Vaswani and others, "Attention is all you need"
/// (2017), 3.5. Its gradient is dy.
struct PositionEncoding {
  static constexpr std::string_view name = "position_encoding";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  static constexpr std::size_t overwrites = 0;
  enum In : std::size_t { x };
  enum Out : std::size_t { y };

  template <class Visit>
  void fields(Visit&&) const {}

  Types infer(TypeSpan in) const {
    require_count(in, 1, 1);
    require_dtype("x", in[x], DType::f32);
    if (in[x].shape.rank() < 2) throw_misfit("positions and columns are wanted, not " + in[x].shape.str());
    return {in[x]};
  }
};

/// Element (position, column) of e, of `columns`.
inline float position_encoding(std::int64_t position, std::int64_t column, std::int64_t columns) {
  const auto even = static_cast<double>(column / 2 * 2);
  const double angle =
      static_cast<double>(position) * std::pow(10000.0, -even / static_cast<double>(columns));
  return static_cast<float>(column % 2 == 0 ? std::sin(angle) : std::cos(angle));
}

}  // namespace lockstep::kernels
