#pragma once

#include <limits>

#include "kernels/op.h"
#include "kernels/step_state.h"

namespace lockstep::kernels {

/// Updates of a flat slice, whatever tensors it holds. PyTorch's formulas and order of operations. Zero
/// padding stays zero. Parameters and states are f32, gradients f32 or bf16. Each gradient is first clipped
/// to [-clip_value, clip_value] (a NaN stays; with GradScaler as if its scale were taken off before) and then
/// multiplied by StepState::gradient_scale; learning rate and bias corrections are there, too. Weight decay
/// acts on the first `decayed` elements: all, or a multiple of `decay_granularity`. A further output,
/// `copy_output()`, also gets the new parameters, rounded to the nearest (ties to even): bf16, on GPUs also
/// f16.

inline constexpr double not_clipped = std::numeric_limits<double>::infinity();
inline constexpr std::int64_t every_element = std::numeric_limits<std::int64_t>::max();
inline constexpr std::int64_t decay_granularity = 4;

/// A slice of the gradients (for WeightAverage: the parameters) with the step's state, and as much of what is
/// updated.
inline void require_slices(TypeSpan in, TypeSpan out, std::size_t states) {
  require_count(in, 2, 2);
  require_floats("the slice", in[0]);
  const TensorType parameter{DType::f32, in[0].shape};
  if (out.size() != 1 + states)
    throw_misfit("a parameter and " + std::to_string(states) + " states are wanted");
  for (const TensorType& slice : out) require_type("the parameter or its state", slice, parameter);
  require_type("the step's state", in[1], step_state_type());
}

/// The same of an op that may write a copy, too, with weight decay on the first `decayed` elements: a GPU
/// takes four at a time.
inline void require_update(TypeSpan in, TypeSpan out, std::size_t copy_output, std::int64_t decayed) {
  require_count(in, 2, 2);
  if (out.size() > copy_output) {
    if (!is_half(out.back().dtype)) throw_misfit("the copy is bf16 or f16");
    require_type("the copy", out.back(), {out.back().dtype, in[0].shape});
    out = out.first(copy_output);
  }
  require_slices(in, out, copy_output - 1);
  if (decayed < in[0].shape.elements() && decayed % decay_granularity != 0) {
    throw_misfit("weight decay ends behind " + std::to_string(decayed) +
                 " elements, must end behind a multiple of " + std::to_string(decay_granularity));
  }
}

/// The buffer is there if momentum != 0. It starts as a copy of the first gradient (StepState::step == 1).
struct SgdUpdate {
  static constexpr std::string_view name = "sgd_update";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  enum In : std::size_t { gradient, state };
  enum Out : std::size_t { parameter, buffer };
  /// `buffer` is null without momentum, `copy` (bf16) where there is none.
  using Simd = void(const SgdUpdate&, const StepState&, const float* gradient, float* parameter,
                    float* buffer, void* copy, std::int64_t n);

  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  double clip_value = not_clipped;
  std::int64_t decayed = every_element;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("momentum", momentum);
    visit("dampening", dampening);
    visit("weight_decay", weight_decay);
    visit("nesterov", nesterov);
    visit("clip_value", clip_value);
    visit("decayed", decayed);
  }

  bool has_buffer() const { return momentum != 0; }
  std::size_t copy_output() const { return has_buffer() ? 2 : 1; }
  void check(TypeSpan in, TypeSpan out) const { require_update(in, out, copy_output(), decayed); }
};

/// `decoupled` is AdamW. With `amsgrad` the greatest exp_avg_sq so far takes its place in the denominator.
struct AdamUpdate {
  static constexpr std::string_view name = "adam_update";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  enum In : std::size_t { gradient, state };
  enum Out : std::size_t { parameter, exp_avg, exp_avg_sq, max_exp_avg_sq };
  /// `max_exp_avg_sq` is null without amsgrad, `copy` (bf16) where there is none.
  using Simd = void(const AdamUpdate&, const StepState&, const float* gradient, float* parameter,
                    float* exp_avg, float* exp_avg_sq, float* max_exp_avg_sq, void* copy, std::int64_t n);

  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;
  bool amsgrad = false;
  double clip_value = not_clipped;
  std::int64_t decayed = every_element;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("beta1", beta1);
    visit("beta2", beta2);
    visit("epsilon", epsilon);
    visit("weight_decay", weight_decay);
    visit("decoupled", decoupled);
    visit("amsgrad", amsgrad);
    visit("clip_value", clip_value);
    visit("decayed", decayed);
  }

  std::size_t copy_output() const { return amsgrad ? 4 : 3; }
  void check(TypeSpan in, TypeSpan out) const { require_update(in, out, copy_output(), decayed); }
};

}  // namespace lockstep::kernels
