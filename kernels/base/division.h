#pragma once

#include <concepts>
#include <type_traits>

namespace lockstep {

/// How many parts of `part` it takes to cover `whole`: none where that is 0, or negative by less than a part.
template <std::integral Integer>
constexpr Integer parts_of(Integer whole, std::type_identity_t<Integer> part) {
  return (whole + part - 1) / part;
}

template <std::integral Integer>
constexpr Integer rounded_up(Integer count, std::type_identity_t<Integer> multiple) {
  return parts_of(count, multiple) * multiple;
}

}  // namespace lockstep
