#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/base/half.h"

namespace lockstep::comm::testing {

template <class T>
constexpr bool is_half_type = sizeof(T) == 2;

/// Values of many magnitudes, so that another order of additions gives other bits.
template <class T>
T element(int rank, std::size_t index) {
  std::uint64_t mixed = (static_cast<std::uint64_t>(rank) << 40 | index) * 0x9E3779B97F4A7C15;
  mixed ^= mixed >> 29;
  const auto mantissa = static_cast<double>(mixed % 1000003) - 500000.0;
  const double scales[] = {1e-6, 1.0, 3e5, 7e-2};
  const double value = mantissa * scales[(index + static_cast<std::size_t>(rank)) % 4];
  if constexpr (is_half_type<T>) {
    constexpr double within_f16 = 5e-8;
    T half;
    narrow(static_cast<float>(value * within_f16), half);
    return half;
  } else {
    return static_cast<T>(value);
  }
}

/// In f32 for halves.
template <class T>
auto widened(T value) {
  if constexpr (is_half_type<T>)
    return widen(value);
  else
    return value;
}

/// How far one rounding takes a number off, as a part of it.
template <class T>
constexpr double unit_of_rounding = std::numeric_limits<T>::epsilon() / 2;
template <>
inline constexpr double unit_of_rounding<BFloat16> = 0x1p-8;
template <>
inline constexpr double unit_of_rounding<Float16> = 0x1p-11;

/// Whether both can be the sum of all ranks' elements, each in its own order and rounded by each addition.
template <class T>
bool are_sums_alike(T one, T other, int ranks, std::size_t index) {
  double terms = 0;
  for (int rank = 0; rank < ranks; ++rank)
    terms += std::abs(static_cast<double>(widened(element<T>(rank, index))));
  const double distance = static_cast<double>(widened(one)) - static_cast<double>(widened(other));
  return std::abs(distance) <= 2 * (ranks - 1) * unit_of_rounding<T> * terms;
}

template <class T>
auto tree_sum_of_elements(int first, int count, std::size_t index) {
  if (count == 1) return widened(element<T>(first, index));
  int left = 1;
  while (left * 2 < count) left *= 2;
  return tree_sum_of_elements<T>(first, left, index) +
         tree_sum_of_elements<T>(first + left, count - left, index);
}

/// The tree of the design, one element at a time: the left subtree holds the greatest power of two of ranks.
template <class T>
T reference(int first, int count, std::size_t index) {
  if constexpr (is_half_type<T>) {
    T half;
    narrow(tree_sum_of_elements<T>(first, count, index), half);
    return half;
  } else {
    return tree_sum_of_elements<T>(first, count, index);
  }
}

}  // namespace lockstep::comm::testing
