#pragma once

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "kernels/cpu/simd/simd.h"
#include "tests/support/catch.h"

namespace lockstep::tests {

inline std::vector<float> numbers(std::size_t n, int seed) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    values[i] = static_cast<float>(
                    static_cast<int>((i * 7919 + static_cast<std::size_t>(seed) * 104729) % 2003) - 1001) /
                257.0F;
  }
  return values;
}

/// The SIMD kernels for one instruction set.
struct Loops {
  std::size_t index;

  template <class Op, class... Arguments>
  auto operator()(const Op& op, Arguments... arguments) const {
    return kernels::simd::kernel<Op>(index)(op, arguments...);
  }
};

inline void append(std::vector<float>& to, std::span<const float> values) {
  to.insert(to.end(), values.begin(), values.end());
}

/// `compute(loops)` gives the baseline's bits with all instruction sets.
template <class Compute>
void check_same_bits(const Compute& compute) {
  const std::vector<float> wanted = compute(Loops{0});
  const auto sets = kernels::simd::instruction_sets();
  for (std::size_t index = 1; index < sets.size(); ++index) {
    INFO(std::string(sets[index]));
    const std::vector<float> got = compute(Loops{index});
    REQUIRE(got.size() == wanted.size());
    CHECK(std::memcmp(got.data(), wanted.data(), got.size() * sizeof(float)) == 0);
  }
}

/// `compute(loops)` gives sums of some 37 terms up to 16, in another order with each instruction set.
template <class Compute>
void check_same_sums(const Compute& compute) {
  const std::vector<float> wanted = compute(Loops{0});
  const auto sets = kernels::simd::instruction_sets();
  for (std::size_t index = 1; index < sets.size(); ++index) {
    INFO(std::string(sets[index]));
    const std::vector<float> got = compute(Loops{index});
    REQUIRE(got.size() == wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      REQUIRE(got[i] == Approx(wanted[i]).epsilon(1e-5).margin(1e-4));
    }
  }
}

}  // namespace lockstep::tests
