#pragma once

#include "kernels/cpu/simd/lanes.h"
#include "kernels/pool2d.h"

/// How the SIMD kernels of pools find their windows and lanes.
namespace lockstep::kernels::simd::LOCKSTEP_ISA {

/// The part of an output pixel's window that lies inside the input.
struct Window {
  std::int64_t top, bottom, left, right;
};

inline std::int64_t inside(std::int64_t at, std::int64_t extent) {
  return at < 0 ? 0 : at > extent ? extent : at;
}

inline Window window_at(const PoolPlane& p, std::int64_t row, std::int64_t column) {
  const std::int64_t top = row * p.stride_h - p.padding_h;
  const std::int64_t left = column * p.stride_w - p.padding_w;
  return {inside(top, p.height), inside(top + p.kernel_h, p.height), inside(left, p.width),
          inside(left + p.kernel_w, p.width)};
}

/// Windows of 2x2 side by side.
inline bool is_quads(const PoolPlane& p) {
  return p.kernel_h == 2 && p.kernel_w == 2 && p.stride_h == 2 && p.stride_w == 2 && p.padding_h == 0 &&
         p.padding_w == 0;
}

/// Calls `visit` with Pool<native_width>, <8> or <1> and the first lane until all lanes are done.
template <template <int> class Pool, class Visit>
inline void for_lanes(const PoolPlane& p, Visit visit) {
  std::int64_t lane = 0;
  for (; lane + native_width <= p.lanes; lane += native_width) visit(Pool<native_width>{}, lane);
  if constexpr (native_width > 8) {
    for (; lane + 8 <= p.lanes; lane += 8) visit(Pool<8>{}, lane);
  }
  for (; lane < p.lanes; ++lane) visit(Pool<1>{}, lane);
}

/// Calls `compute` with null pointers to the plane's element type.
template <class Compute>
inline void with_element(const PoolPlane& p, Compute compute) {
  if (p.dtype == DType::bf16) {
    compute(static_cast<Bf16*>(nullptr));
  } else {
    compute(static_cast<float*>(nullptr));
  }
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
