#include "kernels/optimizer.h"

#include "kernels/cpu/simd/math.h"
#include "kernels/gradient_scaling.h"
#include "kernels/lerp.h"

// torch.optim's single-tensor updates: scalars are computed in double and rounded to float once, as there.
namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

/// torch.maximum: of a number and a NaN the NaN.
float greater(float a, float b) {
  return a > b || a != a ? a : b;
}

template <bool has_momentum, bool has_copy>
void sgd_slice(const SgdUpdate& spec, const StepState& state, const float* gradient, float* parameter,
               float* buffer, Bf16* copy, std::int64_t n) {
  const auto decay = static_cast<float>(spec.weight_decay);
  const auto momentum = static_cast<float>(spec.momentum);
  const bool first = state.step == 1;
  const float keep = first ? 0 : momentum;
  const float take = first ? 1 : static_cast<float>(1 - spec.dampening);
  const float of_gradient = spec.nesterov ? 1.0F : 0.0F;
  const float of_buffer = spec.nesterov ? momentum : 1.0F;
  const auto rate = static_cast<float>(-state.learning_rate);
  const float scale = state.gradient_scale;
  const float limit = GradientScaling::limit(spec, state);
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    float g = scale * clipped(gradient[i], limit) + decay * parameter[i];
    if constexpr (has_momentum) {
      buffer[i] = keep * buffer[i] + take * g;
      g = of_gradient * g + of_buffer * buffer[i];
    }
    const float p = parameter[i] + rate * g;
    parameter[i] = p;
    if constexpr (has_copy) store(copy + i, p);
  }
}

template <bool amsgrad, bool has_copy>
void adam_slice(const AdamUpdate& spec, const StepState& state, const float* gradient, float* parameter,
                float* exp_avg, float* exp_avg_sq, float* max_exp_avg_sq, Bf16* copy, std::int64_t n) {
  const double rate = state.learning_rate;
  const auto lerp = static_cast<float>(1 - spec.beta1);
  const auto beta2 = static_cast<float>(spec.beta2);
  const auto square = static_cast<float>(1 - spec.beta2);
  const auto epsilon = static_cast<float>(spec.epsilon);
  const auto step = static_cast<float>(-rate / state.bias_correction1);
  const float scale = state.gradient_scale;
  const float limit = GradientScaling::limit(spec, state);
  const auto correction = static_cast<float>(state.bias_correction2_sqrt);
  const auto shrink = static_cast<float>(spec.decoupled ? 1 - rate * spec.weight_decay : 1.0);
  const auto decay = static_cast<float>(spec.decoupled ? 0.0 : spec.weight_decay);
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const float p = parameter[i] * shrink;
    const float g = scale * clipped(gradient[i], limit) + decay * p;
    exp_avg[i] = lerped(exp_avg[i], g, lerp);
    exp_avg_sq[i] = exp_avg_sq[i] * beta2 + square * g * g;
    float second_moment = exp_avg_sq[i];
    if constexpr (amsgrad) {
      max_exp_avg_sq[i] = greater(second_moment, max_exp_avg_sq[i]);
      second_moment = max_exp_avg_sq[i];
    }
    const float denominator = __builtin_sqrtf(second_moment) / correction + epsilon;
    const float updated = p + step * exp_avg[i] / denominator;
    parameter[i] = updated;
    if constexpr (has_copy) store(copy + i, updated);
  }
}

/// `call<a, b>()`
template <class Call>
void with_flags(bool a, bool b, Call call) {
  if (a) {
    b ? call.template operator()<true, true>() : call.template operator()<true, false>();
  } else {
    b ? call.template operator()<false, true>() : call.template operator()<false, false>();
  }
}

}  // namespace

void run(const SgdUpdate& spec, const StepState& state, const float* gradient, float* parameter,
         float* buffer, void* copy, std::int64_t n) {
  const auto update = [&]<bool has_momentum, bool has_copy>() {
    sgd_slice<has_momentum, has_copy>(spec, state, gradient, parameter, buffer, static_cast<Bf16*>(copy), n);
  };
  with_flags(buffer != nullptr, copy != nullptr, update);
}

void run(const AdamUpdate& spec, const StepState& state, const float* gradient, float* parameter,
         float* exp_avg, float* exp_avg_sq, float* max_exp_avg_sq, void* copy, std::int64_t n) {
  const auto update = [&]<bool amsgrad, bool has_copy>() {
    adam_slice<amsgrad, has_copy>(spec, state, gradient, parameter, exp_avg, exp_avg_sq, max_exp_avg_sq,
                                  static_cast<Bf16*>(copy), n);
  };
  with_flags(max_exp_avg_sq != nullptr, copy != nullptr, update);
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
