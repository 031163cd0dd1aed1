#include "kernels/weight_average.h"

#include "kernels/cpu/simd/isa.h"
#include "kernels/lerp.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {

void run(const WeightAverage& op, const StepState& state, const float* parameter, float* average,
         std::int64_t n) {
  if (state.step == 1) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) average[i] = parameter[i];
    return;
  }
  const auto share = static_cast<float>(1 - op.decay);
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) average[i] = lerped(average[i], parameter[i], share);
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
