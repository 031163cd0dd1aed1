#include "kernels/optimizer.h"

#include "kernels/cuda/portability.h"

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/grid.h"

// torch.optim's single-tensor updates: scalars are computed in double and rounded to float once, as there.
namespace lockstep::kernels {
namespace {

/// What a step's scalars are made of; the rest is read from StepState when the kernel runs.
struct SgdRule {
  float momentum, take, decay, of_gradient, of_buffer;

  explicit SgdRule(const SgdUpdate& spec)
      : momentum(static_cast<float>(spec.momentum)),
        take(static_cast<float>(1 - spec.dampening)),
        decay(static_cast<float>(spec.weight_decay)),
        of_gradient(spec.nesterov ? 1.0F : 0.0F),
        of_buffer(spec.nesterov ? momentum : 1.0F) {}
};

/// A product by itself, never part of a fused multiply-add: without clipping, by 1, it changes no bit.
__device__ inline float scaled(float gradient, float scale) {
  return __fmul_rn(gradient, scale);
}

struct SgdStep {
  float keep, take, decay, of_gradient, of_buffer, rate, scale;

  __device__ SgdStep(const SgdRule& rule, const StepState& state)
      : keep(state.step == 1 ? 0 : rule.momentum),
        take(state.step == 1 ? 1 : rule.take),
        decay(rule.decay),
        of_gradient(rule.of_gradient),
        of_buffer(rule.of_buffer),
        rate(static_cast<float>(-state.learning_rate)),
        scale(state.gradient_scale) {}

  __device__ void operator()(float gradient, float& parameter) const {
    parameter += rate * (scaled(gradient, scale) + decay * parameter);
  }
  __device__ void operator()(float gradient, float& parameter, float& buffer) const {
    const float g = scaled(gradient, scale) + decay * parameter;
    buffer = keep * buffer + take * g;
    parameter += rate * (of_gradient * g + of_buffer * buffer);
  }
};

struct AdamRule {
  double decoupled_decay, decay;
  float lerp, beta2, square, epsilon;

  explicit AdamRule(const AdamUpdate& spec)
      : decoupled_decay(spec.decoupled ? spec.weight_decay : 0),
        decay(spec.decoupled ? 0 : spec.weight_decay),
        lerp(static_cast<float>(1 - spec.beta1)),
        beta2(static_cast<float>(spec.beta2)),
        square(static_cast<float>(1 - spec.beta2)),
        epsilon(static_cast<float>(spec.epsilon)) {}
};

struct AdamStep {
  float lerp, beta2, square, epsilon, step, correction, shrink, decay, scale;

  __device__ AdamStep(const AdamRule& rule, const StepState& state)
      : lerp(rule.lerp),
        beta2(rule.beta2),
        square(rule.square),
        epsilon(rule.epsilon),
        step(static_cast<float>(-state.learning_rate / state.bias_correction1)),
        correction(static_cast<float>(state.bias_correction2_sqrt)),
        shrink(static_cast<float>(1 - state.learning_rate * rule.decoupled_decay)),
        decay(static_cast<float>(rule.decay)),
        scale(state.gradient_scale) {}

  __device__ void operator()(float gradient, float& parameter, float& exp_avg, float& exp_avg_sq) const {
    const float p = parameter * shrink;
    const float g = scaled(gradient, scale) + decay * p;
    exp_avg += lerp * (g - exp_avg);
    exp_avg_sq = exp_avg_sq * beta2 + square * g * g;
    const float denominator = sqrtf(exp_avg_sq) / correction + epsilon;
    parameter = p + step * exp_avg / denominator;
  }
};

/// Applies `Step` to each element of the slices, four at a time.
template <class Step, class Rule, class... States>
__global__ void update(Rule rule, const StepState* state, std::int64_t n, const float* gradient,
                       float* parameter, States*... states) {
  if (state->skip_update != 0) return;
  const Step step(rule, *state);
  const std::int64_t whole = n / 4;
  for (std::int64_t i = first_item(); i < whole; i += item_stride()) {
    const float4 g = reinterpret_cast<const float4*>(gradient)[i];
    float4 p = reinterpret_cast<float4*>(parameter)[i];
    const auto apply = [&](auto... s) {
      step(g.x, p.x, s.x...);
      step(g.y, p.y, s.y...);
      step(g.z, p.z, s.z...);
      step(g.w, p.w, s.w...);
      reinterpret_cast<float4*>(parameter)[i] = p;
      ((reinterpret_cast<float4*>(states)[i] = s), ...);
    };
    apply(reinterpret_cast<float4*>(states)[i]...);
  }
  for (std::int64_t i = 4 * whole + first_item(); i < n; i += item_stride()) {
    step(gradient[i], parameter[i], states[i]...);
  }
}

/// Buckets are slices of flat arenas, updated on another stream than the one that computes with the rest.
auto slices_of(std::int64_t n, std::size_t gradient, std::size_t outputs) {
  return [=](const Addresses& a) {
    const auto bytes = static_cast<std::size_t>(n) * sizeof(float);
    declare_slice(a.in(gradient), bytes);
    for (std::size_t i = 0; i < outputs; ++i) declare_slice(a.out(i), bytes);
  };
}

}  // namespace

KernelPtr prepare(Cuda, const SgdUpdate& op, const KernelIo& io) {
  using Op = SgdUpdate;
  const std::int64_t n = io.inputs[Op::gradient].shape.elements();
  const auto run = [=, s = spread((n + 3) / 4)](const Addresses& a, cudaStream_t stream) {
    const auto* const state = a.in<StepState>(Op::state);
    if (float* const buffer = a.out(Op::buffer); buffer != nullptr) {
      launch(update<SgdStep, SgdRule, float>, s.blocks, s.threads, 0, stream, SgdRule(op), state, n,
             a.in(Op::gradient), a.out(Op::parameter), buffer);
    } else {
      launch(update<SgdStep, SgdRule>, s.blocks, s.threads, 0, stream, SgdRule(op), state, n,
             a.in(Op::gradient), a.out(Op::parameter));
    }
  };
  return cuda_kernel(io, run, 0, slices_of(n, Op::gradient, io.outputs.size()));
}

KernelPtr prepare(Cuda, const AdamUpdate& op, const KernelIo& io) {
  using Op = AdamUpdate;
  const std::int64_t n = io.inputs[Op::gradient].shape.elements();
  const auto run = [=, s = spread((n + 3) / 4)](const Addresses& a, cudaStream_t stream) {
    launch(update<AdamStep, AdamRule, float, float>, s.blocks, s.threads, 0, stream, AdamRule(op),
           a.in<StepState>(Op::state), n, a.in(Op::gradient), a.out(Op::parameter), a.out(Op::exp_avg),
           a.out(Op::exp_avg_sq));
  };
  return cuda_kernel(io, run, 0, slices_of(n, Op::gradient, io.outputs.size()));
}

}  // namespace lockstep::kernels
