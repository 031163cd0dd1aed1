#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::comm::testing {

/// Values of many magnitudes, so that another order of additions gives other bits.
template <class T>
T element(int rank, std::size_t index) {
  std::uint64_t mixed = (static_cast<std::uint64_t>(rank) << 40 | index) * 0x9E3779B97F4A7C15;
  mixed ^= mixed >> 29;
  const auto mantissa = static_cast<double>(mixed % 1000003) - 500000.0;
  const double scales[] = {1e-6, 1.0, 3e5, 7e-2};
  return static_cast<T>(mantissa * scales[(index + static_cast<std::size_t>(rank)) % 4]);
}

/// The tree of the design, one element at a time: the left subtree holds the greatest power of two of ranks.
template <class T>
T reference(int first, int count, std::size_t index) {
  if (count == 1) return element<T>(first, index);
  int left = 1;
  while (left * 2 < count) left *= 2;
  return reference<T>(first, left, index) + reference<T>(first + left, count - left, index);
}

}  // namespace lockstep::comm::testing
