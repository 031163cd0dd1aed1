#include "kernels/linear.h"

#include "kernels/cpu/simd/isa.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {

void run(const Linear& op, const MatmulSize& size, const float* x, const float* w, const float* b, float* y) {
  const bool relu = op.activation == Activation::relu;
  for (std::int64_t row = 0; row < size.rows; ++row) {
    for (std::int64_t out = 0; out < size.outputs; ++out) {
      const float* features = x + row * size.inputs;
      const float* weights = w + out * size.inputs;
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t i = 0; i < size.inputs; ++i) sum += features[i] * weights[i];
      if (b != nullptr) sum += b[out];
      y[row * size.outputs + out] = relu && sum < 0 ? 0 : sum;
    }
  }
}

void run(const LinearBackwardData&, const MatmulSize& size, const float* dy, const float* w, float* dx) {
  for (std::int64_t row = 0; row < size.rows; ++row) {
    float* gradient = dx + row * size.inputs;
    for (std::int64_t i = 0; i < size.inputs; ++i) gradient[i] = 0;
    for (std::int64_t out = 0; out < size.outputs; ++out) {
      const float from = dy[row * size.outputs + out];
#pragma omp simd
      for (std::int64_t i = 0; i < size.inputs; ++i) gradient[i] += from * w[out * size.inputs + i];
    }
  }
}

void run(const LinearBackwardWeights&, const MatmulSize& size, const float* x, const float* dy, float* dw,
         float* db) {
  for (std::int64_t out = 0; out < size.outputs; ++out) {
    float* gradient = dw + out * size.inputs;
    float bias = 0;
    for (std::int64_t i = 0; i < size.inputs; ++i) gradient[i] = 0;
    for (std::int64_t row = 0; row < size.rows; ++row) {
      const float from = dy[row * size.outputs + out];
      bias += from;
#pragma omp simd
      for (std::int64_t i = 0; i < size.inputs; ++i) gradient[i] += from * x[row * size.inputs + i];
    }
    if (db != nullptr) db[out] = bias;
  }
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
