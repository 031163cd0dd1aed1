#pragma once

#include "kernels/op.h"
#include "kernels/step_state.h"

namespace lockstep::kernels {

/// Losses compute their own gradient in the same pass. A row is what has a loss of its own: a sample or,
/// where each token has a target, a token. Rows of the samples from StepState::valid_samples on are padding:
/// no loss, gradient zero. The sum of the valid rows' losses, times StepState::loss_scale, is added to
/// ControlBlock::loss, with `correct`, `top5`, `targets` and `not_finite`; the gradient is scaled alike, and
/// by StepState::scaler_scale. Rows are summed in a fixed order. Of equal predictions the first counts as the
/// greater, as in torch.argmax.

/// What one row adds to the loss, before the loss scale.
struct RowLoss {
  float loss;
  float correct;
  float top5;
  float targets;
};

/// PyTorch's ignore_index: a target that does not count.
inline constexpr std::int64_t ignored_target = -100;

/// How predictions are cut into rows: by the last dimension, where targets are classes, else by the first.
struct LossShape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t rows_of_sample = 1;

  static LossShape of_classes(const Shape& predictions) {
    const std::int64_t columns = predictions[predictions.rank() - 1];
    const std::int64_t rows_of_sample = predictions.rank() == 3 ? predictions[1] : 1;
    return {predictions[0] * rows_of_sample, columns, rows_of_sample};
  }
  static LossShape of_values(const Shape& predictions) {
    std::int64_t columns = 1;
    for (std::size_t i = 1; i < predictions.rank(); ++i) columns *= predictions[i];
    return {predictions[0], columns, 1};
  }
};

/// The rows that one thread of the CPU's team takes.
struct LossRows {
  std::int64_t begin, end, columns;
  std::int64_t valid;  ///< rows from here on are padding
  float scale;         ///< of the gradient
};

/// Predictions (N, K) and targets (N) i64, or (N, T, K) and (N, T): a class for each token. A target outside
/// [0, K), except -100 (ignored, as in PyTorch), makes the loss not a number. Smoothing as in PyTorch: the
/// target distribution is (1 - s) one-hot + s / K.
struct SoftmaxCrossEntropy {
  static constexpr std::string_view name = "softmax_cross_entropy";
  static constexpr LayoutRule layouts = LayoutRule::by_kernel;
  enum In : std::size_t { predictions, targets, state };
  enum Out : std::size_t { control, gradient };
  /// `gradient` may be null. `losses` has one element per row, from row 0 on.
  using Simd = void(const SoftmaxCrossEntropy&, const LossRows&, const float* logits,
                    const std::int64_t* targets, float* gradient, RowLoss* losses);

  float label_smoothing = 0;
  bool has_gradient = true;  ///< false in evaluation: no second output

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("label_smoothing", label_smoothing);
    visit("has_gradient", has_gradient);
  }

  Types infer(TypeSpan in) const {
    require_count(in, 3, 3);
    require_dtype("the output", in[predictions], DType::f32);
    const Shape& shape = in[predictions].shape;
    if (shape.rank() != 3) require_rank("the output", in[predictions], 2);
    const Shape rows = shape.rank() == 3 ? Shape{shape[0], shape[1]} : Shape{shape[0]};
    require_type("one class a row", in[targets], {DType::i64, rows});
    Types out{control_type()};
    if (has_gradient) out.push_back(in[predictions]);
    return out;
  }
};

/// Predictions and targets (N, ...) f32: the mean over all features of a sample, then over samples as above.
struct MeanSquaredError {
  static constexpr std::string_view name = "mean_squared_error";
  static constexpr LayoutRule layouts = LayoutRule::by_kernel;
  enum In : std::size_t { predictions, targets, state };
  enum Out : std::size_t { control, gradient };
  using Simd = void(const MeanSquaredError&, const LossRows&, const float* y, const float* targets,
                    float* gradient, RowLoss* losses);

  bool has_gradient = true;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("has_gradient", has_gradient);
  }

  Types infer(TypeSpan in) const {
    require_count(in, 3, 3);
    require_dtype("the output", in[predictions], DType::f32);
    if (in[predictions].shape.rank() < 2) require_rank("the output", in[predictions], 2);
    require_type("the targets", in[targets], in[predictions]);
    Types out{control_type()};
    if (has_gradient) out.push_back(in[predictions]);
    return out;
  }
};

}  // namespace lockstep::kernels
