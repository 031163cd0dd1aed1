#include "kernels/optimizer.h"

#include "kernels/cuda/portability.h"

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/grid.h"
#include "kernels/lerp.h"

// torch.optim's single-tensor updates: scalars are computed in double and rounded to float once, as there.
namespace lockstep::kernels {
namespace {

/// What a step's scalars are made of; the rest is read from StepState when the kernel runs.
struct SgdRule {
  float momentum, take, decay, of_gradient, of_buffer, limit;

  explicit SgdRule(const SgdUpdate& spec)
      : momentum(static_cast<float>(spec.momentum)),
        take(static_cast<float>(1 - spec.dampening)),
        decay(static_cast<float>(spec.weight_decay)),
        of_gradient(spec.nesterov ? 1.0F : 0.0F),
        of_buffer(spec.nesterov ? momentum : 1.0F),
        limit(static_cast<float>(spec.clip_value)) {}
};

/// Clipped to [-limit, limit], but for a NaN; then a product by itself, never part of a fused multiply-add:
/// without clipping, by 1, it changes no bit.
__device__ inline float scaled(float gradient, float limit, float scale) {
  const float below = gradient > limit ? limit : gradient;
  return __fmul_rn(below < -limit ? -limit : below, scale);
}

struct SgdStep {
  float keep, take, decay, of_gradient, of_buffer, limit, rate, scale;

  __device__ SgdStep(const SgdRule& rule, const StepState& state)
      : keep(state.step == 1 ? 0 : rule.momentum),
        take(state.step == 1 ? 1 : rule.take),
        decay(rule.decay),
        of_gradient(rule.of_gradient),
        of_buffer(rule.of_buffer),
        limit(rule.limit * state.carried_scale),
        rate(static_cast<float>(-state.learning_rate)),
        scale(state.gradient_scale) {}

  __device__ void operator()(float gradient, float& parameter) const {
    parameter += rate * (scaled(gradient, limit, scale) + decay * parameter);
  }
  __device__ void operator()(float gradient, float& parameter, float& buffer) const {
    const float g = scaled(gradient, limit, scale) + decay * parameter;
    buffer = keep * buffer + take * g;
    parameter += rate * (of_gradient * g + of_buffer * buffer);
  }
};

struct AdamRule {
  double decoupled_decay, decay;
  float lerp, beta2, square, epsilon, limit;

  explicit AdamRule(const AdamUpdate& spec)
      : decoupled_decay(spec.decoupled ? spec.weight_decay : 0),
        decay(spec.decoupled ? 0 : spec.weight_decay),
        lerp(static_cast<float>(1 - spec.beta1)),
        beta2(static_cast<float>(spec.beta2)),
        square(static_cast<float>(1 - spec.beta2)),
        epsilon(static_cast<float>(spec.epsilon)),
        limit(static_cast<float>(spec.clip_value)) {}
};

struct AdamStep {
  float lerp, beta2, square, epsilon, limit, step, correction, shrink, decay, scale;

  __device__ AdamStep(const AdamRule& rule, const StepState& state)
      : lerp(rule.lerp),
        beta2(rule.beta2),
        square(rule.square),
        epsilon(rule.epsilon),
        limit(rule.limit * state.carried_scale),
        step(static_cast<float>(-state.learning_rate / state.bias_correction1)),
        correction(static_cast<float>(state.bias_correction2_sqrt)),
        shrink(static_cast<float>(1 - state.learning_rate * rule.decoupled_decay)),
        decay(static_cast<float>(rule.decay)),
        scale(state.gradient_scale) {}

  __device__ void operator()(float gradient, float& parameter, float& exp_avg, float& exp_avg_sq) const {
    float greatest = 0;
    apply<false>(gradient, parameter, exp_avg, exp_avg_sq, greatest);
  }
  __device__ void operator()(float gradient, float& parameter, float& exp_avg, float& exp_avg_sq,
                             float& max_exp_avg_sq) const {
    apply<true>(gradient, parameter, exp_avg, exp_avg_sq, max_exp_avg_sq);
  }

 private:
  template <bool amsgrad>
  __device__ void apply(float gradient, float& parameter, float& exp_avg, float& exp_avg_sq,
                        float& max_exp_avg_sq) const {
    const float p = parameter * shrink;
    const float g = scaled(gradient, limit, scale) + decay * p;
    exp_avg = lerped(exp_avg, g, lerp);
    exp_avg_sq = exp_avg_sq * beta2 + square * g * g;
    const bool is_greater = exp_avg_sq > max_exp_avg_sq || exp_avg_sq != exp_avg_sq;  // a NaN, too
    if (amsgrad && is_greater) max_exp_avg_sq = exp_avg_sq;
    const float second_moment = amsgrad ? max_exp_avg_sq : exp_avg_sq;
    const float denominator = sqrtf(second_moment) / correction + epsilon;
    parameter = p + step * exp_avg / denominator;
  }
};

/// The new parameters in bf16 or f16; none where `to` is null. The type is no template parameter: the kernel
/// waits for memory, not for a branch that all threads take alike, and has many variants already.
struct NarrowCopy {
  void* to;
  bool is_bf16;

  __device__ void store_four(std::int64_t i, const float4& p) const {
    if (to == nullptr) return;
    const Floats<4> values{{p.x, p.y, p.z, p.w}};
    if (is_bf16) {
      store(static_cast<__nv_bfloat16*>(to) + 4 * i, values);
    } else {
      store(static_cast<__half*>(to) + 4 * i, values);
    }
  }
  __device__ void store_one(std::int64_t i, float p) const {
    if (to == nullptr) return;
    if (is_bf16) {
      static_cast<__nv_bfloat16*>(to)[i] = narrow<__nv_bfloat16>(p);
    } else {
      static_cast<__half*>(to)[i] = narrow<__half>(p);
    }
  }
};

/// Applies `Step` to each element of the slices, four at a time: by `rule` to the first `decayed`, to the
/// others by `undecayed`.
template <class Step, class Rule, class Gradient, class... States>
__global__ void update(Rule rule, Rule undecayed, std::int64_t decayed, const StepState* state,
                       std::int64_t n, const Gradient* gradient, float* parameter, NarrowCopy copy,
                       States*... states) {
  static_assert(decay_granularity % 4 == 0);
  if (state->skip_update != 0) return;
  const Step with_decay(rule, *state);
  const Step without_decay(undecayed, *state);
  const std::int64_t whole = n / 4;
  for (std::int64_t i = first_item(); i < whole; i += item_stride()) {
    const auto& g = aligned_cast<const Four<Gradient>>(gradient)[i].at;
    float4 p = aligned_cast<float4>(parameter)[i];
    const Step& step = 4 * i < decayed ? with_decay : without_decay;
    const auto apply = [&](auto... s) {
      step(widen(g[0]), p.x, s.x...);
      step(widen(g[1]), p.y, s.y...);
      step(widen(g[2]), p.z, s.z...);
      step(widen(g[3]), p.w, s.w...);
      aligned_cast<float4>(parameter)[i] = p;
      copy.store_four(i, p);
      ((aligned_cast<float4>(states)[i] = s), ...);
    };
    apply(aligned_cast<float4>(states)[i]...);
  }
  for (std::int64_t i = 4 * whole + first_item(); i < n; i += item_stride()) {
    (i < decayed ? with_decay : without_decay)(widen(gradient[i]), parameter[i], states[i]...);
    copy.store_one(i, parameter[i]);
  }
}

/// Buckets are slices of flat arenas, updated on another stream than the one that computes with the rest.
auto slices_of(const KernelIo& io, std::size_t gradient) {
  const std::size_t gradient_bytes = io.inputs[gradient].bytes();
  std::vector<std::size_t> output_bytes;
  for (const TensorDesc& output : io.outputs) output_bytes.push_back(output.bytes());
  return [=](const Addresses& a) {
    declare_slice(a.in<void>(gradient), gradient_bytes);
    for (std::size_t i = 0; i < output_bytes.size(); ++i) declare_slice(a.out<void>(i), output_bytes[i]);
  };
}

template <class Op>
Op without_decay(Op op) {
  op.weight_decay = 0;
  return op;
}

/// With `States`, the addresses of the op's states.
template <class Step, class Rule, class Gradient, class Op, class... States>
void launch_update(const Op& op, std::int64_t n, const Spread& s, DType copies, const Addresses& a,
                   cudaStream_t stream, States*... states) {
  const NarrowCopy copy{.to = a.out<void>(op.copy_output()), .is_bf16 = copies == DType::bf16};
  launch(update<Step, Rule, Gradient, States...>, s.blocks, s.threads, 0, stream, Rule(op),
         Rule(without_decay(op)), op.decayed, a.in<StepState>(Op::state), n, a.in<Gradient>(Op::gradient),
         a.out(Op::parameter), copy, states...);
}

}  // namespace

KernelPtr prepare(Cuda, const SgdUpdate& op, const KernelIo& io) {
  using Op = SgdUpdate;
  const std::int64_t n = io.inputs[Op::gradient].shape.elements();
  const DType copies = io.outputs.back().dtype;  // if there are any
  return with_element(io.inputs[Op::gradient].dtype, [&]<class Gradient>(Gradient*) {
    const auto run = [=, s = spread(parts_of(n, 4))](const Addresses& a, cudaStream_t stream) {
      if (op.has_buffer()) {
        launch_update<SgdStep, SgdRule, Gradient>(op, n, s, copies, a, stream, a.out(Op::buffer));
      } else {
        launch_update<SgdStep, SgdRule, Gradient>(op, n, s, copies, a, stream);
      }
    };
    return cuda_kernel(io, run, 0, slices_of(io, Op::gradient));
  });
}

KernelPtr prepare(Cuda, const AdamUpdate& op, const KernelIo& io) {
  using Op = AdamUpdate;
  const std::int64_t n = io.inputs[Op::gradient].shape.elements();
  const DType copies = io.outputs.back().dtype;  // if there are any
  return with_element(io.inputs[Op::gradient].dtype, [&]<class Gradient>(Gradient*) {
    const auto run = [=, s = spread(parts_of(n, 4))](const Addresses& a, cudaStream_t stream) {
      float* const exp_avg = a.out(Op::exp_avg);
      float* const exp_avg_sq = a.out(Op::exp_avg_sq);
      if (op.amsgrad) {
        launch_update<AdamStep, AdamRule, Gradient>(op, n, s, copies, a, stream, exp_avg, exp_avg_sq,
                                                    a.out(Op::max_exp_avg_sq));
      } else {
        launch_update<AdamStep, AdamRule, Gradient>(op, n, s, copies, a, stream, exp_avg, exp_avg_sq);
      }
    };
    return cuda_kernel(io, run, 0, slices_of(io, Op::gradient));
  });
}

}  // namespace lockstep::kernels
