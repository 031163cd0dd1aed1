#pragma once

#include <omp.h>

#include <bit>
#include <cmath>

#include "kernels/cpu/simd/simd.h"
#include "tests/unit/kernels/harness.h"

/// Sums of products of bf16 by tiles (AMX), and what bounds their error.
namespace lockstep::kernels::test {

inline bool computes_tiles() {
  return device().is_cpu() && simd::has_amx() && device().instruction_set().find("amx") != std::string::npos;
}

/// Numbers that bf16 has exactly, of 8 bits of mantissa and 16 magnitudes: their sums are rounded.
inline Values numbers(const Shape& shape, unsigned seed) {
  Values values = random_values(shape, seed);
  for (std::size_t i = 0; i < values.data.size(); ++i) {
    const auto narrow = std::bit_cast<std::uint32_t>(static_cast<float>(values.data[i])) & 0xFFFF0000U;
    values.data[i] = std::ldexp(std::bit_cast<float>(narrow), -static_cast<int>(i * 7 % 16));
  }
  return values;
}

/// `sums` of products over `terms`, and the same of the magnitudes, which bound its error.
struct Wanted {
  Values sums, magnitudes;
  std::int64_t terms;
};

/// Products of two bf16 are exact in f32; a sum of them is rounded once a term and once a partial sum at
/// most, each time by 2^-24 of a sum that is no larger than that of the magnitudes. `unit`: of the result's
/// type.
inline void require_sums(const Values& got, const Wanted& wanted, double unit) {
  REQUIRE(got.data.size() == wanted.sums.data.size());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < got.data.size(); ++i) {
    const double sum = wanted.sums.data[i];
    const double bound = static_cast<double>(wanted.terms + 16) * 0x1p-24 * wanted.magnitudes.data[i];
    const bool close = std::fabs(got.data[i] - sum) <= (bound + unit * std::fabs(sum)) * (1 + 0x1p-8);
    if (!close && wrong++ == 0) UNSCOPED_INFO("element " << i << ": " << got.data[i] << " for " << sum);
  }
  REQUIRE(wrong == 0);
}

template <class Run>
auto with_threads(int threads, const Run& run) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  auto result = run();
  omp_set_num_threads(before);
  return result;
}

}  // namespace lockstep::kernels::test
