#include "kernels/dropout.h"

#include "kernels/cpu/simd/math.h"
#include "kernels/cpu/simd/random_words.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

constexpr std::int64_t blocks = 64;  ///< of four words, made at a time: a lane for each

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
    fill_words<blocks>(run.random, dropout_block(run.sample, at / 4), words);
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
