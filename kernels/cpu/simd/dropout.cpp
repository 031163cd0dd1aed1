#include "kernels/dropout.h"

#include "kernels/cpu/simd/math.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

constexpr std::int64_t blocks = 64;  ///< of four words, made at a time: a lane for each

/// Words of the blocks from `first` on. All that it calls is inlined here, so that no copy of it is linked
/// that has another instruction set.
[[gnu::flatten]] void fill_words(const Philox& random, std::uint64_t first, std::uint32_t* words) {
  std::uint32_t lane[4][blocks];
  for (std::int64_t i = 0; i < blocks; ++i) {
    const PhiloxCounter counter = random.counter(first + static_cast<std::uint64_t>(i));
    for (std::size_t word = 0; word < 4; ++word) lane[word][i] = counter[word];
  }
  PhiloxKey key = random.key();
  for (int round = 0; round < kPhiloxRounds; ++round) {
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

template <class Element>
[[gnu::flatten]] void drop(const Dropout& op, const DropoutRun& run, const Element* x, Element* y) {
  const std::uint32_t threshold = op.threshold();
  const float scale = op.scale();
  std::uint32_t words[4 * blocks];
  for (std::int64_t done = 0; done < run.n;) {
    const std::int64_t at = run.first + done;
    const std::int64_t skip = at % 4;
    const std::int64_t room = 4 * blocks - skip;
    const std::int64_t count = run.n - done < room ? run.n - done : room;
    fill_words(run.random, dropout_block(run.sample, at / 4), words);
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
      const float kept = load(x + done + i) * scale;
      store(y + done + i, words[skip + i] < threshold ? 0.0F : kept);
    }
    done += count;
  }
}

}  // namespace

void run(const Dropout& op, const DropoutRun& run, const void* x, void* y) {
  if (run.dtype == DType::bf16) return drop(op, run, static_cast<const Bf16*>(x), static_cast<Bf16*>(y));
  drop(op, run, static_cast<const float*>(x), static_cast<float*>(y));
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
