#pragma once

#include <string>

#include "kernels/op.h"
#include "kernels/pointwise.h"

/// Batch normalisation (S. Ioffe, C. Szegedy, "Batch Normalization", 2015) with PyTorch's semantics, cut into
/// single passes over memory, so that a training step is two forward and two backward, an evaluation is one,
/// and ranks may add their statistics between the passes.
///
/// x is (N, C, H, W) or (N, C), of f32, bf16 or f16; all that belongs to channels is f32. A tensor of x's
/// type has x's layout, which may be row-major, channels-last or blocked in channels.
namespace lockstep::kernels {

/// A unary pointwise function that follows in the same pass. It keeps zero, so that padding does.
struct FollowingFunction {
  bool is_there = false;
  PointwiseFunction function{};

  std::string name() const;  ///< "relu", or "none"
  bool operator==(const FollowingFunction&) const = default;
};

/// A tensor as its channels lie: element (image, group, pixel, lane) is at image * image_stride + group *
/// group_stride + pixel * lanes + lane, and its channel is group * lanes + lane; those from `channels` on are
/// padding.
struct ChannelView {
  std::int64_t channels, lanes, groups;
  std::int64_t images, pixels;
  std::int64_t image_stride, group_stride;

  std::int64_t elements_of_channel() const { return images * pixels; }
  std::int64_t elements() const { return images * pixels * groups * lanes; }
};

/// UsageError for a layout that is none of those above.
ChannelView channel_view(const TensorDesc& x);

/// x's layout, row-major if it has none that fits, for all tensors of its type; the rest is row-major.
void choose_norm_layouts(std::size_t x, KernelIo& io);

/// What one thread of the CPU's team walks at once: `pixels` of `lanes` side by side, of which those from
/// `channels` on are padding, in each of `images`.
struct NormStrip {
  std::int64_t pixels, lanes, channels;
  DType dtype;  ///< f32 or bf16
  std::int64_t images = 1;
  std::int64_t image_stride = 0;  ///< in elements

  std::int64_t elements_of_channel() const { return images * pixels; }
};

/// A tensor (C) of f32 for each channel of x.
TensorType of_channels(const TensorType& x);
/// UsageError unless x is what this header says.
void require_images(const TensorType& x);
/// UsageError unless the operands from `first` on are (C) of f32.
void require_of_channels(TypeSpan in, std::size_t first, const TensorType& x);

/// What ranks add is f64, so that sums of squares lose no digits of a variance. The sum and the sum of
/// squares of each channel, then how many elements a channel has: (2C + 1).
TensorType moments_of(const TensorType& x);
/// (2, C): the sums of BatchNormSums.
TensorType total_of(const TensorType& x);

/// Mean and biased variance of each channel. Chunks that the shape fixes have their moments about one of
/// their own elements; they are joined in double (T. Chan, G. Golub, R. LeVeque, "Updating formulae and a
/// pairwise algorithm for computing sample variances", 1979). UsageError for a single element a channel, as
/// in PyTorch.
struct BatchStatistics {
  static constexpr std::string_view name = "batch_statistics";
  static constexpr LayoutRule layouts = LayoutRule::by_kernel;
  enum In : std::size_t { x };
  enum Out : std::size_t { mean, variance };
  /// Of the strip: for each lane the mean, and the sum of squares about it.
  using Simd = void(const BatchStatistics&, const NormStrip&, const void* x, float* mean, float* squares);

  template <class Visit>
  void fields(Visit&&) const {}

  Types infer(TypeSpan in) const;
  double flops(TypeSpan in, TypeSpan) const { return 4 * static_cast<double>(in[x].shape.elements()); }
};

/// A rank's part of the statistics of all ranks. x has the rows of a micro-batch of `samples`, one sample
/// behind the other; those from StepState::valid_samples on are padding and do not count.
struct BatchMoments {
  static constexpr std::string_view name = "batch_moments";
  static constexpr LayoutRule layouts = LayoutRule::by_kernel;
  enum In : std::size_t { x, state };
  enum Out : std::size_t { moments };

  std::int64_t samples = 1;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("samples", samples);
  }

  Types infer(TypeSpan in) const;
  double flops(TypeSpan in, TypeSpan) const { return 4 * static_cast<double>(in[x].shape.elements()); }
};

/// Mean and biased variance of each channel, from moments that are summed over the ranks.
struct JoinedStatistics {
  static constexpr std::string_view name = "joined_statistics";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  enum In : std::size_t { moments };
  enum Out : std::size_t { mean, variance };

  template <class Visit>
  void fields(Visit&&) const {}

  Types infer(TypeSpan in) const;
};

/// y = f((x - mean) / sqrt(variance + eps) * weight + bias + residual); mean and variance are those of the
/// batch in training and the running ones in evaluation. The residual may be left out.
struct BatchNorm {
  static constexpr std::string_view name = "batch_norm";
  static constexpr LayoutRule layouts = LayoutRule::by_kernel;
  static constexpr std::size_t overwrites = 0;
  enum In : std::size_t { x, mean, variance, weight, bias, residual };
  enum Out : std::size_t { y };
  /// The operands of channels begin at the strip's; `residual` may be null.
  using Simd = void(const BatchNorm&, const NormStrip&, const void* x, const float* mean,
                    const float* variance, const float* weight, const float* bias, const void* residual,
                    void* y);

  double eps = 1e-5;
  FollowingFunction then;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("eps", eps);
    visit("then", then.name());
  }

  Types infer(TypeSpan in) const;
  double flops(TypeSpan in, TypeSpan) const { return 4 * static_cast<double>(in[x].shape.elements()); }
};

/// With n = (x - mean) / sqrt(variance + eps) and g the gradient of n * weight + bias, which is dy without a
/// function behind: the sums (2, C) of g and of g * n. They are the gradients of bias and weight. With a
/// function its argument is computed again; weight and bias are read for that alone. `total`, which may be
/// left out, has the same numbers for ranks to add.
struct BatchNormSums {
  static constexpr std::string_view name = "batch_norm_sums";
  static constexpr LayoutRule layouts = LayoutRule::by_kernel;
  enum In : std::size_t { dy, x, mean, variance, weight, bias };
  enum Out : std::size_t { sums, total };
  /// Of the strip: for each lane the two sums.
  using Simd = void(const BatchNormSums&, const NormStrip&, const void* dy, const void* x, const float* mean,
                    const float* variance, const float* weight, const float* bias, float* gradients,
                    float* products);

  double eps = 1e-5;
  FollowingFunction then;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("eps", eps);
    visit("then", then.name());
  }

  void check(TypeSpan in, TypeSpan out) const;
  double flops(TypeSpan in, TypeSpan) const { return 5 * static_cast<double>(in[x].shape.elements()); }
};

/// dx = weight / sqrt(variance + eps) * (g - mean of g - n * mean of (g * n)), the gradient where mean and
/// variance are x's own; dweight and dbias are the sums. Where they are those of all ranks, the means are
/// too: of the ranks' total over the count in their moments, and padding (see BatchMoments) gets zeros. These
/// three operands are left out together.
struct BatchNormBackward {
  static constexpr std::string_view name = "batch_norm_backward";
  static constexpr LayoutRule layouts = LayoutRule::by_kernel;
  static constexpr std::size_t overwrites = 0;
  enum In : std::size_t { dy, x, mean, variance, weight, bias, sums, total, moments, state };
  enum Out : std::size_t { dx, dweight, dbias };
  /// `gradients`, `products`: the sums; `count`: of how many elements a channel.
  using Simd = void(const BatchNormBackward&, const NormStrip&, double count, const void* dy, const void* x,
                    const float* mean, const float* variance, const float* weight, const float* bias,
                    const float* gradients, const float* products, void* dx);

  double eps = 1e-5;
  FollowingFunction then;
  std::int64_t samples = 1;  ///< as in BatchMoments

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("eps", eps);
    visit("then", then.name());
    visit("samples", samples);
  }

  void check(TypeSpan in, TypeSpan out) const;
  double flops(TypeSpan in, TypeSpan) const { return 8 * static_cast<double>(in[x].shape.elements()); }
};

/// running = (1 - momentum) * running + momentum * batch's, the variance with count - 1 instead of `count`
/// elements a channel; num_batches_tracked + 1. Nothing where StepState::skip_update says so. With the
/// moments of all ranks, which may be left out, the count is theirs.
struct RunningStatistics {
  static constexpr std::string_view name = "running_statistics";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  enum In : std::size_t { mean, variance, state, moments };
  enum Out : std::size_t { running_mean, running_variance, batches };

  double momentum = 0.1;
  std::int64_t count = 2;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("momentum", momentum);
    visit("count", count);
  }

  void check(TypeSpan in, TypeSpan out) const;
};

}  // namespace lockstep::kernels
