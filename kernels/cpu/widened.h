#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/base/dtype.h"
#include "kernels/base/half.h"

namespace lockstep::kernels {

/// Calls `visit(values, at, count)` for numbers `first` to `first + n` as f32, `at` being the first of them:
/// once for f32, in pieces that stay in the first cache for bf16.
template <class Visit>
void for_each_widened(DType dtype, const void* numbers, std::int64_t first, std::int64_t n, Visit visit) {
  if (dtype == DType::f32) return visit(static_cast<const float*>(numbers) + first, first, n);
  constexpr std::int64_t piece = 1024;
  alignas(64) float values[piece];
  const auto* const halves = static_cast<const BFloat16*>(numbers);
  for (std::int64_t at = first; at < first + n; at += piece) {
    const std::int64_t count = std::min(piece, first + n - at);
    std::transform(halves + at, halves + at + count, values, [](BFloat16 half) { return widen(half); });
    visit(values, at, count);
  }
}

}  // namespace lockstep::kernels
