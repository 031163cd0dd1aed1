#include "kernels/batch_norm.h"

#include "kernels/cpu/simd/lanes.h"
#include "kernels/pointwise_functions.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

/// Rows of elements side by side in each of a strip's images. Where a strip has one lane, a row is `width`
/// pixels of one channel.
struct Tile {
  std::int64_t offset;  ///< of its first row, in elements
  std::int64_t rows, stride;
  std::int64_t lane;
  std::int64_t images, image_stride;
};

/// `visit(offset)` for all rows of a tile.
template <class Visit>
[[gnu::always_inline]] inline void for_rows(const Tile& tile, Visit visit) {
  for (std::int64_t image = 0; image < tile.images; ++image) {
    const std::int64_t first = tile.offset + image * tile.image_stride;
    for (std::int64_t row = 0; row < tile.rows; ++row) visit(first + row * tile.stride);
  }
}

/// `visit(Lanes<16>, <8> or <1>, tile)` until all of the strip is done.
template <class Visit>
inline void for_tiles(const NormStrip& s, Visit visit) {
  if (s.lanes == 1) {
    const std::int64_t rows = s.pixels / 16;
    if (rows > 0) visit(Lanes<16>{}, Tile{0, rows, 16, 0, s.images, s.image_stride});
    visit(Lanes<1>{}, Tile{rows * 16, s.pixels % 16, 1, 0, s.images, s.image_stride});
    return;
  }
  const auto tile = [&s](std::int64_t lane) {
    if (s.pixels == 1) return Tile{lane, s.images, s.image_stride, lane, 1, 0};
    return Tile{lane, s.pixels, s.lanes, lane, s.images, s.image_stride};
  };
  std::int64_t lane = 0;
  for (; lane + 16 <= s.lanes; lane += 16) visit(Lanes<16>{}, tile(lane));
  for (; lane + 8 <= s.lanes; lane += 8) visit(Lanes<8>{}, tile(lane));
  for (; lane < s.lanes; ++lane) visit(Lanes<1>{}, tile(lane));
}

/// The numbers of the channels of a tile's lanes, zeros for padding.
template <class L>
inline typename L::Floats of_lanes(const float* values, const NormStrip& s, const Tile& tile) {
  if (s.lanes == 1) return L::all(values[0]);
  if (tile.lane + L::count <= s.channels) return L::load(values + tile.lane);
  float at[L::count] = {};
  for (int i = 0; tile.lane + i < s.channels; ++i) at[i] = values[tile.lane + i];
  return L::load(at);
}

/// Adds up what `term(offset)` gives for each row, in four chains, which hide the latency of an addition.
template <class Pair, class Term>
inline Pair sum_rows(const Tile& tile, Term term) {
  Pair chains[4] = {};
  for (std::int64_t image = 0; image < tile.images; ++image) {
    const std::int64_t first = tile.offset + image * tile.image_stride;
    std::int64_t row = 0;
    for (; row + 4 <= tile.rows; row += 4) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) chains[i].add(term(first + (row + i) * tile.stride));
    }
    for (; row < tile.rows; ++row) chains[0].add(term(first + row * tile.stride));
  }
  chains[0].add(chains[1]);
  chains[2].add(chains[3]);
  chains[0].add(chains[2]);
  return chains[0];
}

template <class L>
struct Pair {
  typename L::Floats first{}, second{};
  [[gnu::always_inline]] void add(const Pair& other) {
    first += other.first;
    second += other.second;
  }

  /// Into the numbers of the strip's lanes; what belongs to one channel is summed.
  void put(const NormStrip& s, const Tile& tile, float* firsts, float* seconds) const {
    if (s.lanes == 1) {
      firsts[0] += L::sum(first);
      seconds[0] += L::sum(second);
    } else {
      L::store(firsts + tile.lane, first);
      L::store(seconds + tile.lane, second);
    }
  }
};

template <class Element>
void moments(const NormStrip& s, const Element* x, float* mean, float* squares) {
  mean[0] = 0;
  squares[0] = 0;
  for_tiles(s, [&]<class L>(L, const Tile& tile) {
    // About an element of the chunk, so that a mean far from zero costs no digits of the variance.
    const auto shift = s.lanes == 1 ? L::all(load(x)) : L::load(x + tile.lane);
    const auto sums = sum_rows<Pair<L>>(tile, [&](std::int64_t at) {
      const auto distance = L::load(x + at) - shift;
      return Pair<L>{distance, distance * distance};
    });
    sums.put(s, tile, mean, squares);
  });
  const auto count = static_cast<float>(s.elements_of_channel());
  for (std::int64_t lane = 0; lane < s.lanes; ++lane) {
    const float shifted = mean[lane] / count;
    const float about_mean = squares[lane] - shifted * mean[lane];
    mean[lane] = load(x + lane) + shifted;
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

/// What a tile's lanes are normalised by.
template <class L>
struct Affine {
  typename L::Floats mean, rstd, scale, bias;

  Affine(const NormStrip& s, const Tile& tile, const ChannelNumbers& of)
      : mean(of_lanes<L>(of.mean, s, tile)) {
    float at[L::count];
    L::store(at, of_lanes<L>(of.variance, s, tile));
    for (int i = 0; i < L::count; ++i) at[i] = Math::rsqrt(at[i] + static_cast<float>(of.eps));
    rstd = L::load(at);
    scale = rstd * of_lanes<L>(of.weight, s, tile);
    bias = of_lanes<L>(of.bias, s, tile);
  }
  [[gnu::always_inline]] typename L::Floats operator()(typename L::Floats x) const {
    return (x - mean) * scale + bias;
  }
};

template <class Function, class Element>
void normalise(const NormStrip& s, const ChannelNumbers& channels, const Element* x, const Element* residual,
               Element* y) {
  for_tiles(s, [&]<class L>(L, const Tile& tile) {
    const Affine<L> affine(s, tile, channels);
    for_rows(tile, [&](std::int64_t at) {
      auto z = affine(L::load(x + at));
      if (residual != nullptr) z += L::load(residual + at);
      L::store(y + at, value_of<Function, L>(z));
    });
  });
}

template <class Function, class Element>
void backward_sums(const NormStrip& s, const ChannelNumbers& channels, const Element* dy, const Element* x,
                   float* gradients, float* products) {
  gradients[0] = 0;
  products[0] = 0;
  for_tiles(s, [&]<class L>(L, const Tile& tile) {
    const Affine<L> affine(s, tile, channels);
    auto sums = sum_rows<Pair<L>>(tile, [&](std::int64_t at) {
      const auto in = L::load(x + at);
      const auto g = gradient_of<Function, L>(affine(in), L::load(dy + at));
      return Pair<L>{g, g * (in - affine.mean)};
    });
    sums.second *= affine.rstd;
    sums.put(s, tile, gradients, products);
  });
}

template <class Function, class Element>
void gradient_of_input(const NormStrip& s, const ChannelNumbers& channels, double count, const Element* dy,
                       const Element* x, const float* gradients, const float* products, Element* dx) {
  const auto share = static_cast<float>(1 / count);
  for_tiles(s, [&]<class L>(L, const Tile& tile) {
    const Affine<L> affine(s, tile, channels);
    const auto shift = of_lanes<L>(gradients, s, tile) * share;
    const auto slope = of_lanes<L>(products, s, tile) * share * affine.rstd;
    for_rows(tile, [&](std::int64_t at) {
      const auto in = L::load(x + at);
      const auto g = gradient_of<Function, L>(affine(in), L::load(dy + at));
      L::store(dx + at, affine.scale * (g - shift - (in - affine.mean) * slope));
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
