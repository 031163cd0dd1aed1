#include "tests/unit/kernels/simd_math/probe.h"

#include "kernels/cpu/simd/math.h"

namespace lockstep::kernels::test::LOCKSTEP_ISA {
namespace {

template <auto function>
void loop(const float* x, float* y, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) y[i] = function(x[i]);
}

float same(float x) {
  return x;
}

using Math = simd::LOCKSTEP_ISA::Math;

}  // namespace

extern const MathLoops loops;
const MathLoops loops{loop<Math::exp_negative>, loop<Math::exp_or_zero>, loop<Math::exp>,   loop<Math::tanh>,
                      loop<Math::sigmoid>,      loop<Math::erf>,         loop<Math::rsqrt>, loop<same>};

}  // namespace lockstep::kernels::test::LOCKSTEP_ISA
