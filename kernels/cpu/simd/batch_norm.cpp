#include "kernels/batch_norm.h"

#include <utility>

#include "kernels/cpu/simd/norm_blocks.h"
#include "kernels/pointwise_functions.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

/// What a strip's moments are taken about, so that a mean far from zero costs no digits of the variance: the
/// middle one of three elements, which is no outlier. Elevenths: few pictures have rows of a multiple of so
/// many pixels, where all three could lie on a border.
template <class Element>
class Shift {
 public:
  Shift(const NormStrip& s, const Element* x) : x_(x) {
    constexpr std::int64_t elevenths[3] = {3, 5, 8};
    for (int i = 0; i < 3; ++i) {
      const std::int64_t element = s.elements_of_channel() * elevenths[i] / 11;
      places_[i] = element / s.pixels * s.image_stride + element % s.pixels * s.lanes;
    }
  }

  float of(std::int64_t lane) const {
    const float a = load(x_ + places_[0] + lane);
    const float b = load(x_ + places_[1] + lane);
    const float c = load(x_ + places_[2] + lane);
    const float low = a < b ? a : b;
    const float high = a < b ? b : a;
    return c < low ? low : c < high ? c : high;
  }

 private:
  const Element* x_;
  std::int64_t places_[3];
};

template <class Element>
void moments(const NormStrip& s, const Element* x, float* mean, float* squares) {
  const Shift<Element> about(s, x);
  mean[0] = 0;
  squares[0] = 0;
  for_blocks(s, [&](const Block& block) {
    const Table shift = Table::make(s, block, [&](std::int64_t channel) { return about.of(channel); });
    const Sums sums(block, [&]<class L>(L, std::int64_t lane, std::int64_t at) {
      const auto distance = load_ahead<L>(x + at) - shift.template at<L>(lane);
      return std::pair(distance, distance * distance);
    });
    sums.put(s, block, mean, squares);
  });
  const auto count = static_cast<float>(s.elements_of_channel());
  for (std::int64_t lane = 0; lane < s.lanes; ++lane) {
    const float shifted = mean[lane] / count;
    const float about_mean = squares[lane] - shifted * mean[lane];
    mean[lane] = about.of(lane) + shifted;
    squares[lane] = about_mean < 0 ? 0 : about_mean;
  }
}

/// No function follows.
struct Identity {};

template <class Function, class L>
inline typename L::Floats value_of(typename L::Floats z) {
  if constexpr (__is_same(Function, Identity)) {
    return z;
  } else if constexpr (__is_same(Function, pointwise::Relu)) {
    return z < 0 ? typename L::Floats{} : z;
  } else {
    float at[L::count];
    L::store(at, z);
#pragma omp simd
    for (int i = 0; i < L::count; ++i) at[i] = Function::template value<Math>(at[i]);
    return L::load(at);
  }
}

/// d loss / d z of y = f(z).
template <class Function, class L>
inline typename L::Floats gradient_of(typename L::Floats z, typename L::Floats dy) {
  if constexpr (__is_same(Function, Identity)) {
    return dy;
  } else if constexpr (__is_same(Function, pointwise::Relu)) {
    return z > 0 ? dy : typename L::Floats{};
  } else {
    float of[L::count];
    float at[L::count];
    L::store(of, Function::gradient_from_output ? value_of<Function, L>(z) : z);
    L::store(at, dy);
#pragma omp simd
    for (int i = 0; i < L::count; ++i) at[i] = Function::template gradient<Math>(of[i], at[i]);
    return L::load(at);
  }
}

/// The operands of a strip's channels.
struct ChannelNumbers {
  const float *mean, *variance, *weight, *bias;
  double eps;
};

/// What a block's lanes are normalised by.
struct Affine {
  Table mean, rstd, scale, bias;

  Affine(const NormStrip& s, const Block& block, const ChannelNumbers& of)
      : mean(Table::make(s, block, [&](std::int64_t channel) { return of.mean[channel]; })),
        rstd(Table::make(s, block,
                         [&](std::int64_t channel) {
                           return Math::rsqrt(of.variance[channel] + static_cast<float>(of.eps));
                         })),
        scale(Table::make(s, block, [&](std::int64_t channel) { return of.weight[channel]; })),
        bias(Table::make(s, block, [&](std::int64_t channel) { return of.bias[channel]; })) {
    for (std::int64_t lane = 0; lane < block.lanes; ++lane) scale.numbers[lane] *= rstd.numbers[lane];
  }

  template <class L>
  [[gnu::always_inline]] typename L::Floats of(std::int64_t lane, typename L::Floats x) const {
    return (x - mean.template at<L>(lane)) * scale.template at<L>(lane) + bias.template at<L>(lane);
  }
};

template <class Function, class Element>
void normalise(const NormStrip& s, const ChannelNumbers& channels, const Element* x, const Element* residual,
               Element* y) {
  for_blocks(s, [&](const Block& block) {
    const Affine affine(s, block, channels);
    for_elements(block, [&]<class L>(L, std::int64_t lane, std::int64_t at) {
      auto z = affine.template of<L>(lane, load_ahead<L>(x + at));
      if (residual != nullptr) z += load_ahead<L>(residual + at);
      L::store(y + at, value_of<Function, L>(z));
    });
  });
}

template <class Function, class Element>
void backward_sums(const NormStrip& s, const ChannelNumbers& channels, const Element* dy, const Element* x,
                   float* gradients, float* products) {
  gradients[0] = 0;
  products[0] = 0;
  for_blocks(s, [&](const Block& block) {
    const Affine affine(s, block, channels);
    Sums sums(block, [&]<class L>(L, std::int64_t lane, std::int64_t at) {
      const auto in = load_ahead<L>(x + at);
      const auto g = gradient_of<Function, L>(affine.template of<L>(lane, in), load_ahead<L>(dy + at));
      return std::pair(g, g * (in - affine.mean.template at<L>(lane)));
    });
    for (std::int64_t lane = 0; lane < block.lanes; ++lane) {
      sums.seconds[0].numbers[lane] *= affine.rstd.numbers[lane];
    }
    sums.put(s, block, gradients, products);
  });
}

template <class Function, class Element>
void gradient_of_input(const NormStrip& s, const ChannelNumbers& channels, double count, const Element* dy,
                       const Element* x, const float* gradients, const float* products, Element* dx) {
  const auto share = static_cast<float>(1 / count);
  for_blocks(s, [&](const Block& block) {
    const Affine affine(s, block, channels);
    const Table shift = Table::make(s, block, [&](std::int64_t i) { return gradients[i] * share; });
    Table slope = Table::make(s, block, [&](std::int64_t i) { return products[i] * share; });
    for (std::int64_t lane = 0; lane < block.lanes; ++lane) slope.numbers[lane] *= affine.rstd.numbers[lane];
    for_elements(block, [&]<class L>(L, std::int64_t lane, std::int64_t at) {
      const auto in = load_ahead<L>(x + at);
      const auto g = gradient_of<Function, L>(affine.template of<L>(lane, in), load_ahead<L>(dy + at));
      const auto distance = in - affine.mean.template at<L>(lane);
      L::store(dx + at, affine.scale.template at<L>(lane) *
                            (g - shift.template at<L>(lane) - distance * slope.template at<L>(lane)));
    });
  });
}

/// `visit(function)` with a value of its type; those that do not keep zero are never taken up.
template <class Visit>
inline void with_function(const FollowingFunction& then, Visit visit) {
  if (!then.is_there) return visit(Identity{});
  switch (then.function) {
#define LOCKSTEP_UNARY(Function, name)                                                  \
  case PointwiseFunction::name:                                                         \
    if constexpr (pointwise::Function::keeps_zero) return visit(pointwise::Function{}); \
    break;
#define LOCKSTEP_BINARY(Function, name) \
  case PointwiseFunction::name:         \
    break;
#include "kernels/pointwise.def"
  }
}

/// `visit(function, element)` with a null pointer to the type of elements.
template <class Visit>
inline void with_types(const FollowingFunction& then, DType dtype, Visit visit) {
  with_function(then, [&]<class Function>(Function) {
    if (dtype == DType::f32) {
      visit.template operator()<Function, float>();
    } else {
      visit.template operator()<Function, Bf16>();
    }
  });
}

}  // namespace

void run(const BatchStatistics&, const NormStrip& strip, const void* x, float* mean, float* squares) {
  if (strip.dtype == DType::f32) {
    moments(strip, static_cast<const float*>(x), mean, squares);
  } else {
    moments(strip, static_cast<const Bf16*>(x), mean, squares);
  }
}

void run(const BatchNorm& op, const NormStrip& strip, const void* x, const float* mean, const float* variance,
         const float* weight, const float* bias, const void* residual, void* y) {
  const ChannelNumbers channels{mean, variance, weight, bias, op.eps};
  with_types(op.then, strip.dtype, [&]<class Function, class Element>() {
    normalise<Function>(strip, channels, static_cast<const Element*>(x),
                        static_cast<const Element*>(residual), static_cast<Element*>(y));
  });
}

void run(const BatchNormSums& op, const NormStrip& strip, const void* dy, const void* x, const float* mean,
         const float* variance, const float* weight, const float* bias, float* gradients, float* products) {
  const ChannelNumbers channels{mean, variance, weight, bias, op.eps};
  with_types(op.then, strip.dtype, [&]<class Function, class Element>() {
    backward_sums<Function>(strip, channels, static_cast<const Element*>(dy), static_cast<const Element*>(x),
                            gradients, products);
  });
}

void run(const BatchNormBackward& op, const NormStrip& strip, double count, const void* dy, const void* x,
         const float* mean, const float* variance, const float* weight, const float* bias,
         const float* gradients, const float* products, void* dx) {
  const ChannelNumbers channels{mean, variance, weight, bias, op.eps};
  with_types(op.then, strip.dtype, [&]<class Function, class Element>() {
    gradient_of_input<Function>(strip, channels, count, static_cast<const Element*>(dy),
                                static_cast<const Element*>(x), gradients, products,
                                static_cast<Element*>(dx));
  });
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
