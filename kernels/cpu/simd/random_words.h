#pragma once

#include "kernels/base/philox.h"
#include "kernels/cpu/simd/isa.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {

/// Words of `blocks` blocks from the first on, a lane for each block. All that it calls is inlined here, so
/// that no copy of it is linked that has another instruction set.
template <std::int64_t blocks>
[[gnu::flatten]] inline void fill_words(const Philox& random, std::uint64_t first, std::uint32_t* words) {
  std::uint32_t lane[4][blocks];
  for (std::int64_t i = 0; i < blocks; ++i) {
    const PhiloxCounter counter = random.counter(first + static_cast<std::uint64_t>(i));
    for (std::size_t word = 0; word < 4; ++word) lane[word][i] = counter[word];
  }
  PhiloxKey key = random.key();
  for (int round = 0; round < philox_rounds; ++round) {
#pragma omp simd
    for (std::int64_t i = 0; i < blocks; ++i) {
      const PhiloxCounter next = philox_round({lane[0][i], lane[1][i], lane[2][i], lane[3][i]}, key);
      lane[0][i] = next[0];
      lane[1][i] = next[1];
      lane[2][i] = next[2];
      lane[3][i] = next[3];
    }
    key = philox_next(key);
  }
  for (std::int64_t i = 0; i < blocks; ++i) {
    for (std::int64_t word = 0; word < 4; ++word) words[4 * i + word] = lane[word][i];
  }
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
