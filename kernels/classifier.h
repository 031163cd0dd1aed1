#pragma once

#include "kernels/base/division.h"
#include "kernels/linear.h"
#include "kernels/loss.h"
#include "kernels/op.h"

namespace lockstep::kernels {

/// A linear map and the cross entropy of what it gives, for vocabularies so large that the logits (N, T, K)
/// and their gradient would be most of a step's memory: they exist for some rows at a time, and the gradients
/// of x, weights and bias are taken from them at once. What the loss is, and what goes to the control block,
/// is SoftmaxCrossEntropy's; products are Linear's. x (N, I) or (N, T, I), weight (K, I), bias (K) or left
/// out, targets (N) or (N, T) i64.
struct ClassifierLoss {
  static constexpr std::string_view name = "classifier_loss";
  static constexpr LayoutRule layouts = LayoutRule::by_kernel;
  enum In : std::size_t { x, weight, targets, state, bias };
  enum Out : std::size_t { control, dx, dweight, dbias };
  /// Of a chunk's logits on a GPU: each chunk reads all weights, and adds to their gradient.
  static constexpr std::int64_t gpu_chunk_bytes = 256 << 20;
  /// On a GPU's tensor cores weights and bias have rows of zeros up to a multiple of it, and so have logits
  /// columns: tiles are whole, and rows of logits begin at multiples of 16 bytes.
  static constexpr std::int64_t gpu_vocabulary = 128;

  float label_smoothing = 0;
  bool has_gradient = true;  ///< false in evaluation: control alone
  std::int64_t chunk = 0;    ///< rows whose logits exist at a time; 0: as the backend thinks best
  MatmulPrecision precision = MatmulPrecision::highest;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("label_smoothing", label_smoothing);
    visit("has_gradient", has_gradient);
    visit("chunk", chunk);
    visit("precision", precision);
  }

  /// dweight and dbias are f32 whatever the factors are: sums are.
  Types infer(TypeSpan in) const {
    require_count(in, 4, 5);
    Types linear{in[x], in[weight]};
    if (in.size() > bias) linear.push_back(in[bias]);
    TensorType logits = Linear{}.infer(linear).front();
    logits.dtype = DType::f32;
    SoftmaxCrossEntropy{}.infer(Types{logits, in[targets], in[state]});
    Types out{control_type()};
    if (!has_gradient) return out;
    out.push_back(in[x]);
    out.push_back({DType::f32, in[weight].shape});
    if (in.size() > bias) out.push_back({DType::f32, in[bias].shape});
    return out;
  }

  double flops(TypeSpan in, TypeSpan) const {
    return (has_gradient ? 3 : 1) * matmul_size(in[x].shape, in[weight].shape).flops();
  }
};

/// What a GPU's kernel is that reads a row's logits from memory once.
struct KeepsLogits {
  virtual ~KeepsLogits() = default;
};

/// `whole` in parts of nearly equal size, at most about `most`, in multiples of 32 where there are several.
constexpr std::int64_t equal_parts(std::int64_t whole, std::int64_t most) {
  if (whole <= most) return whole > 1 ? whole : 1;
  const std::int64_t parts = parts_of(whole, most);
  return rounded_up(parts_of(whole, parts), 32);
}

/// Parts of it on the CPU. Rows' logits are computed and read in blocks of columns.

/// What is known of a row while its blocks pass by.
struct ClassifierRow {
  std::int64_t target;  ///< a class; none: the row has no gradient
  std::int64_t before;  ///< classes that stand before the target: greater ones, and equal ones before it
  float peak;           ///< the greatest logit so far
  float total;          ///< of e^(x - peak) so far
  float sum;            ///< of x - peak so far
  float hit;            ///< the target's logit
  float broken;         ///< more than 0: a logit is no number, or infinite

  static constexpr std::int64_t none = -1;
};

/// Rows of a block of logits, `columns` of the classes from `first` on; `row` numbers from one to the next.
struct ClassifierBlock {
  std::int64_t begin, end;
  std::int64_t first, columns, row, classes;
};

/// Adds the bias (which may be null) to the block, and the block to what is known of its rows.
struct ClassifierSums {
  static constexpr std::string_view name = "classifier_sums";
  using Simd = void(const ClassifierSums&, const ClassifierBlock&, const float* bias, float* logits,
                    ClassifierRow* rows);
};

/// Counts the classes before the target and, unless `gradient` is null, writes the gradient of the block as
/// f32 or bf16.
struct ClassifierGradient {
  static constexpr std::string_view name = "classifier_gradient";
  using Simd = void(const ClassifierGradient&, const ClassifierBlock&, const float* logits, void* gradient,
                    ClassifierRow* rows);

  float label_smoothing;
  float scale;
  DType dtype;  ///< of the gradient
};

/// Both for a gradient in bf16 and rows whose target's logit is known, as `hit`, before their blocks pass by.
/// In place of the block's logits stay their exponentials: half as much memory, and computed once. They are
/// rounded to bf16, and so is the gradient that is made of them: as exact as logits of bf16 are where the
/// greatest is 1, and more exact where it is more.

/// As ClassifierSums, and counts the classes before the target. Keeps e^(x - the row's greatest in the
/// block), and that logit in `peaks`. The block's logits are overwritten.
struct ClassifierExponentials {
  static constexpr std::string_view name = "classifier_exponentials";
  using Simd = void(const ClassifierExponentials&, const ClassifierBlock&, const float* bias, float* logits,
                    void* kept, float* peaks, ClassifierRow* rows);
};

/// The gradient of the block from what was kept of it, and zeros behind its columns.
struct ClassifierKeptGradient {
  static constexpr std::string_view name = "classifier_kept_gradient";
  using Simd = void(const ClassifierKeptGradient&, const ClassifierBlock&, const void* kept,
                    const float* peaks, void* gradient, const ClassifierRow* rows);

  float label_smoothing;
  float scale;
};

}  // namespace lockstep::kernels
