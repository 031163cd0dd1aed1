#pragma once

#include <limits>

#include "kernels/base/error.h"
#include "kernels/batch_norm.h"
#include "kernels/cuda/channel_walk.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/portability.h"
#include "kernels/kernel.h"
#include "kernels/step_state.h"

/// What the passes of batch normalisation share: where the elements of a channel lie, and what is computed of
/// each.
namespace lockstep::kernels {

/// ChannelView of a tensor without padding or gaps, in numbers of one width.
template <class Index>
struct Images {
  Index channels, lanes, groups, pixels, count;  ///< count: elements of a channel

  __device__ Index at(Index channel, Index i) const {
    const Index image = i / pixels;
    return ((image * groups + channel / lanes) * pixels + i - image * pixels) * lanes + channel % lanes;
  }
  /// Of the element at that offset.
  __device__ Index channel_at(Index offset) const {
    return offset / lanes / pixels % groups * lanes + offset % lanes;
  }
};

/// Of the elements of a tensor that has the rows of `samples`, one behind the other, those of the samples
/// before StepState::valid_samples. Without a state all.
__device__ inline std::int64_t valid_elements(std::int64_t elements, const StepState* state,
                                              std::int64_t samples) {
  return state == nullptr ? elements : elements * state->valid_samples / samples;
}

/// What follows in the pass, by number; `none` without.
using Following = int;
constexpr Following none = -1;
/// Kernels are compiled for those that are frequent, and for `any`, which they learn when they are launched.
constexpr Following any = -2;

template <Following known>
__device__ Following chosen(Following function) {
  return known == any ? function : known;
}

__device__ inline float value_of(Following function, float z) {
  if (function == none) return z;
  switch (static_cast<PointwiseFunction>(function)) {
#define LOCKSTEP_UNARY(Function, name) \
  case PointwiseFunction::name:        \
    return pointwise::Function::value<CudaMath>(z);
#define LOCKSTEP_BINARY(Function, name) \
  case PointwiseFunction::name:         \
    break;
#include "kernels/pointwise.def"
  }
  return z;
}

__device__ inline float gradient_of(Following function, float z, float dy) {
  if (function == none) return dy;
  switch (static_cast<PointwiseFunction>(function)) {
#define LOCKSTEP_UNARY(Function, name)              \
  case PointwiseFunction::name:                     \
    return pointwise::Function::gradient<CudaMath>( \
        pointwise::Function::gradient_from_output ? value_of(function, z) : z, dy);
#define LOCKSTEP_BINARY(Function, name) \
  case PointwiseFunction::name:         \
    break;
#include "kernels/pointwise.def"
  }
  return dy;
}

/// The numbers of one channel.
struct Affine {
  float mean, rstd, scale, bias;

  Affine() = default;
  __device__ Affine(float of_mean, float variance, float weight, float of_bias, float eps)
      : mean(of_mean), rstd(CudaMath::rsqrt(variance + eps)), scale(rstd * weight), bias(of_bias) {}
  __device__ float operator()(float x) const { return (x - mean) * scale + bias; }
};

template <int count>
struct NeighbouringAffines {
  Affine at[count];
};

/// The tensors of channels, (C) of f32.
struct Affines {
  const float *mean, *variance, *weight, *bias;

  template <class Index>
  __device__ Affine at(Index channel, float eps) const {
    return {mean[channel], variance[channel], weight[channel], bias[channel], eps};
  }
  /// Of `count` channels from that one on, a multiple of `count`.
  template <int count>
  __device__ NeighbouringAffines<count> from(std::int64_t channel, float eps) const {
    const auto means = load<count>(mean + channel);
    const auto variances = load<count>(variance + channel);
    const auto weights = load<count>(weight + channel);
    const auto biases = load<count>(bias + channel);
    NeighbouringAffines<count> of;
    LOCKSTEP_UNROLL
    for (int k = 0; k < count; ++k)
      of.at[k] = Affine(means.at[k], variances.at[k], weights.at[k], biases.at[k], eps);
    return of;
  }
};

template <class Op>
Affines affines_of(const Addresses& a) {
  return {.mean = a.in(Op::mean),
          .variance = a.in(Op::variance),
          .weight = a.in(Op::weight),
          .bias = a.in(Op::bias)};
}

/// What backward reads of the pictures.
template <class Element>
struct BatchNormGradientInputs {
  const Element *dy, *x;
  Affines affines;
};

template <class Op, class Element>
BatchNormGradientInputs<Element> gradient_inputs_of(const Addresses& a) {
  return {.dy = a.in<Element>(Op::dy), .x = a.in<Element>(Op::x), .affines = affines_of<Op>(a)};
}

inline Following number_of(const FollowingFunction& then) {
  return then.is_there ? static_cast<Following>(then.function) : none;
}

/// `make.operator()<known>()`, where `known` may be `any`.
template <class Make>
KernelPtr with_following(const FollowingFunction& then, Make make) {
  constexpr auto relu = static_cast<Following>(PointwiseFunction::relu);
  const Following function = number_of(then);
  if (function == none) return make.template operator()<none>();
  return function == relu ? make.template operator()<relu>() : make.template operator()<any>();
}

/// Loads of a thread that are in flight at a time, of so many operands. The code of an unknown function is
/// long, and repeated for each of them.
constexpr int loads_together(Following known, int operands) {
  return known == any ? 1 : 4 / operands;
}

/// As walking_blocks: an unknown function needs registers of its own.
constexpr int least_blocks(Following known, int operands) {
  return known == any ? 2 : walking_blocks(operands);
}

/// A tensor as rows of packs: of channels side by side, or, where `channels` is 1, of one channel's pixels.
/// Rows are pixels, or images.
template <class ElementType, int of_pack>
struct PackedRows {
  using Element = ElementType;
  static constexpr int width = pack_lanes<Element>;
  static constexpr int channels = of_pack;  ///< of a pack

  std::int64_t rows, columns;
  std::int64_t columns_of_channel;  ///< where a pack has one

  __device__ std::int64_t channel(std::int64_t column) const {
    return channels == 1 ? column / columns_of_channel : column * channels;
  }
};

/// `make(PackedRows)` for x with channels side by side; null where packs would lie across pixels' ends.
template <class Make>
KernelPtr with_rows_of_pixels(const TensorDesc& x, Make make) {
  const ChannelView view = channel_view(x);
  return with_element(x.dtype, [&]<class Element>(Element*) -> KernelPtr {
    constexpr int width = pack_lanes<Element>;
    const bool is_side_by_side = view.groups == 1 && view.lanes == view.channels;
    if (!is_side_by_side || view.channels % width != 0 || view.elements() == 0) return nullptr;
    return make(PackedRows<Element, width>{view.elements_of_channel(), view.channels / width, 0});
  });
}

/// The same, and for x with the pixels of a channel side by side.
template <class Make>
KernelPtr with_packed_rows(const TensorDesc& x, Make make) {
  if (KernelPtr of_pixels = with_rows_of_pixels(x, make)) return of_pixels;
  const ChannelView view = channel_view(x);
  return with_element(x.dtype, [&]<class Element>(Element*) -> KernelPtr {
    const std::int64_t of_channel = view.pixels / pack_lanes<Element>;
    if (view.lanes != 1 || view.pixels % pack_lanes<Element> != 0 || view.elements() == 0) return nullptr;
    return make(PackedRows<Element, 1>{view.images, view.channels * of_channel, of_channel});
  });
}

/// `make.operator()<Element, Index>(images)` for the elements of x, with the narrowest index.
template <class Make>
KernelPtr with_images(const TensorDesc& x, Make make) {
  const ChannelView view = channel_view(x);
  if (view.groups * view.lanes != view.channels)
    throw UsageError("x is padded: a GPU takes no blocked layout");
  const auto with_index = [&]<class Element, class Index>() {
    const auto narrow = [](std::int64_t value) { return static_cast<Index>(value); };
    return make.template operator()<Element>(Images<Index>{narrow(view.channels), narrow(view.lanes),
                                                           narrow(view.groups), narrow(view.pixels),
                                                           narrow(view.elements_of_channel())});
  };
  return with_element(x.dtype, [&]<class Element>(Element*) {
    const bool is_short = view.elements() < std::numeric_limits<std::int32_t>::max() - 4096;
    return is_short ? with_index.template operator()<Element, std::int32_t>()
                    : with_index.template operator()<Element, std::int64_t>();
  });
}

}  // namespace lockstep::kernels
