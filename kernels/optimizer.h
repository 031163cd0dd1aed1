#pragma once

#include "kernels/op.h"
#include "kernels/step_state.h"

namespace lockstep::kernels {

/// Updates of a flat slice, whatever tensors it holds. PyTorch's formulas and order of operations. Zero
/// padding stays zero. The learning rate, bias corrections and gradient_scale, by which each gradient is
/// multiplied first, come from StepState.

/// A slice of the gradients, and as much of the parameters and of each optimizer state.
inline void require_slices(TypeSpan in, TypeSpan out, std::size_t states) {
  require_count(in, 2, 2);
  require_dtype("the gradient", in[0], DType::f32);
  if (out.size() != 1 + states)
    throw_misfit("a parameter and " + std::to_string(states) + " states are wanted");
  for (const TensorType& slice : out) require_type("the parameter or its state", slice, in[0]);
}

/// The buffer is there if momentum != 0. It starts as a copy of the first gradient (StepState::step == 1).
struct SgdUpdate {
  static constexpr std::string_view name = "sgd_update";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  enum In : std::size_t { gradient, state };
  enum Out : std::size_t { parameter, buffer };
  /// `buffer` is null without momentum.
  using Simd = void(const SgdUpdate&, const StepState&, const float* gradient, float* parameter,
                    float* buffer, std::int64_t n);

  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("momentum", momentum);
    visit("dampening", dampening);
    visit("weight_decay", weight_decay);
    visit("nesterov", nesterov);
  }

  void check(TypeSpan in, TypeSpan out) const { require_slices(in, out, momentum != 0 ? 1 : 0); }
};

/// `decoupled` is AdamW.
struct AdamUpdate {
  static constexpr std::string_view name = "adam_update";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  enum In : std::size_t { gradient, state };
  enum Out : std::size_t { parameter, exp_avg, exp_avg_sq };
  using Simd = void(const AdamUpdate&, const StepState&, const float* gradient, float* parameter,
                    float* exp_avg, float* exp_avg_sq, std::int64_t n);

  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("beta1", beta1);
    visit("beta2", beta2);
    visit("epsilon", epsilon);
    visit("weight_decay", weight_decay);
    visit("decoupled", decoupled);
  }

  void check(TypeSpan in, TypeSpan out) const { require_slices(in, out, 2); }
};

}  // namespace lockstep::kernels
