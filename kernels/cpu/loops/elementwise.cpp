#include "kernels/cpu/loops/isa.h"

namespace lockstep::kernels::loops::LOCKSTEP_ISA {

void relu(const float* x, float* y, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] < 0 ? 0 : x[i];  // not x > 0 ? x : 0: a NaN stays
}

void relu_backward(const float* y, const float* dy, float* dx, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) dx[i] = y[i] > 0 ? dy[i] : 0;
}

void add(const float* a, const float* b, float* sum, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) sum[i] = a[i] + b[i];
}

}  // namespace lockstep::kernels::loops::LOCKSTEP_ISA
